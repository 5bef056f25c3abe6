"""Description of the routes: the OpenAPI document and the page that shows it."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from vicinal import __version__
from vicinal._base import _explanation
from vicinal._base._compat import rows_of
from vicinal._base._tables import column_names
from vicinal.report.explorer import Page
from vicinal.serve._inference_protocol import DATATYPES
from vicinal.serve._served_model import ServedModel

_ERRORS = {
    400: "The request is wrong.",
    401: "The token is missing or wrong.",
    413: "The request is too large.",
    422: "A value does not fit its column.",
    500: "The model failed.",
    503: "The server is busy, starts or shuts down.",
}
_TEXTS = {"/": "text/html", "/docs": "text/html", "/metrics": "text/plain"}


def document(
    served: ServedModel, plan: Sequence[tuple[str, str, Callable]], *, has_token: bool
) -> dict[str, Any]:
    """Return the OpenAPI document of the routes (path, method, handler) of a model."""
    paths = {
        path: {method.lower(): _operation(served, path, handler)} for path, method, handler in plan
    }
    content: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": served.name, "version": __version__},
        "paths": paths,
        "components": {"schemas": _schemas(served)},
    }
    if has_token:
        content["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        content["security"] = [{"token": []}]
    return content


def _operation(served: ServedModel, path: str, handler: Callable) -> dict[str, Any]:
    kind = _TEXTS.get(path, "application/json")
    schema = {"type": "string" if path in _TEXTS else "object"}
    shapes = {"/predict": "Prediction", "/explain": "Explanation", "/neighbors": "Neighbors"}
    if path in shapes:
        schema = _ref(shapes[path])
    found: dict[str, Any] = {
        "summary": str(handler.__doc__).strip(),
        "operationId": path.strip("/").replace("/", "_").replace(".", "_") or "explorer",
        "responses": {"200": {"description": "Success", "content": {kind: {"schema": schema}}}},
    }
    is_health = handler.__name__ in ("healthz", "readyz")
    if is_health:
        found["security"] = []
    has_body = path in shapes or path.endswith("/infer")
    expected = [400, 500, 503] if is_health else [400, 401, 500, 503]
    for status in sorted([*expected, 413, 422] if has_body else expected):
        error = {"application/json": {"schema": _ref("Error")}}
        found["responses"][str(status)] = {"description": _ERRORS[status], "content": error}
    if path in shapes:
        rows = {"schema": _ref("Query" if path == "/explain" else "Rows")}
        example = _example(served)
        body = {"application/json": rows | ({"example": example} if example else {})}
        body["text/csv"] = {"schema": {"type": "string"}}
        found["requestBody"] = {"required": True, "content": body}
    elif has_body:
        tensors = _list(_ref("Tensor")) | {"minItems": 1}
        content = {"application/json": {"schema": _object({"inputs": tensors})}}
        found["requestBody"] = {"required": True, "content": content}
    if path == "/predict":
        number = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
        found["parameters"] = [
            _parameter("coverage", "Adds intervals or label sets with this coverage.", number),
            _parameter("typicality", "Adds the typicality of each row.", {"type": "boolean"}),
            *_decisions(served, number),
        ]
    return found


def _decisions(served: ServedModel, number: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the options that only some models have."""
    known = {
        "by": ("Columns; the coverage holds in each group.", _list({"enum": served.columns})),
        "by_class": ("The coverage holds in each class.", {"type": "boolean"}),
        "abstain": ("Predicts null where the error rate would be larger.", number),
        "cost_matrix": (
            "Predicts labels of least cost; JSON, true labels by predicted ones.",
            {"type": "string"},
        ),
    }
    return [_parameter(name, *known[name]) for name in known if name in served.options]


def _schemas(served: ServedModel) -> dict[str, Any]:
    names = served.columns
    kinds = {"integer": "number"}
    cells = {name: {"type": [kinds.get(kind, kind), "null"]} for name, kind in served.kinds.items()}
    label: dict[str, Any] = {"type": "number"}
    if served.classes is not None:
        label = {"enum": served.classes.tolist()}
    prediction = label
    if "abstain" in served.options:
        prediction = {"enum": [*label["enum"], None]}
    by_position = _list({"type": ["number", "string", "boolean", "null"]}) | {
        "minItems": len(names),
        "maxItems": len(names),
    }
    some = _list({"type": "string", "enum": names})
    goal = label if served.classes is not None else _list({"type": ["number", "null"]})
    options = {
        "target": goal,
        **dict.fromkeys(("fixed", "increase", "decrease"), some),
        "ranges": {"type": "object", "additionalProperties": _list({"type": ["number", "null"]})},
        "categories": {"type": "object", "additionalProperties": _list({})},
        "costs": {"type": "object", "additionalProperties": {"type": "number"}},
        "n_counterfactuals": {"type": "integer", "minimum": 1, "maximum": 10},
    }
    rows = {"rows": _list(_ref("Row")) | {"minItems": 1, "maxItems": served.limits.max_rows}}
    change = {"type": "object", "properties": options, "additionalProperties": False}
    return {
        "Error": _object({"error": {"type": "string"}}),
        "Row": {"anyOf": [_object(cells), by_position]},
        "Rows": _object(rows),
        "Query": _object(rows) | {"properties": rows | {"counterfactual": change}},
        "Prediction": {
            "type": "object",
            "required": ["predictions"],
            "properties": {
                "predictions": _list(prediction),
                "probabilities": _list(_list({"type": "number"})),
                "classes": _list(label),
                "intervals": _list(_list({"type": ["number", "null"]})),
                "sets": _list(_list(label)),
                "typicality": _list({"type": ["number", "null"]}),
            },
        },
        "Explanation": {"type": "object", "required": ["text", "html", "prediction", "sections"]},
        "Tensor": _object(
            {
                "name": {"type": "string"},
                "shape": _list({"type": "integer", "minimum": 0}) | {"minItems": 1, "maxItems": 2},
                "datatype": {"enum": list(DATATYPES)},
            }
        ),
        "Neighbors": _object({"neighbors": _list({"type": "object"})}),
    }


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": [*properties], "properties": properties}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _parameter(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _example(served: ServedModel) -> dict[str, Any] | None:
    if served.background is None:
        return None
    first = rows_of(served.background, slice(0, 1))
    cells = map(_explanation.plain, _explanation.values_of(first))
    return {"rows": [dict(zip(column_names(first), cells, strict=True))]}


class DocsPage(Page):
    """Page of the routes; a request can be edited and sent.

    Parameters
    ----------
    content : dict
        The OpenAPI document.
    """

    template = "docs.html"

    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content

    def as_dict(self) -> dict[str, Any]:
        """Return the content of the page as plain values.

        Returns
        -------
        dict
            ``title``, and ``routes`` with an example of their body.
        """
        routes = []
        for path, methods in self.content["paths"].items():
            ((method, operation),) = methods.items()
            body = operation.get("requestBody", {}).get("content", {}).get("application/json")
            example = None if body is None else json.dumps(body.get("example", {}), indent=1)
            routes.append(
                {"path": path, "method": method.upper(), "body": example, "operation": operation}
            )
        schemas = {
            name: json.dumps(schema, indent=1)
            for name, schema in self.content["components"]["schemas"].items()
        }
        title = f"Routes of {self.content['info']['title']}"
        return {"title": title, "routes": routes, "schemas": schemas}
