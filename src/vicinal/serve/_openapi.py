"""Description of the routes: the OpenAPI document and the page that shows it."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from vicinal import __version__
from vicinal._base._compat import rows_of
from vicinal._base._tables import column_names
from vicinal.report.explorer import Page
from vicinal.serve._inference_protocol import DATATYPES
from vicinal.serve._served_model import ServedModel, plain_row

_TEXTS = {"/": "text/html", "/docs": "text/html", "/metrics": "text/plain"}
_TYPES = {"text/html": "string", "text/plain": "string", "application/json": "object"}


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
    shapes = {"/predict": "Prediction", "/explain": "Explanation", "/neighbors": "Neighbors"}
    schema = _ref(shapes[path]) if path in shapes else {"type": _TYPES[kind]}
    found: dict[str, Any] = {
        "summary": str(handler.__doc__).strip(),
        "operationId": path.strip("/").replace("/", "_").replace(".", "_") or "explorer",
        "responses": {
            "200": {"description": "Success", "content": {kind: {"schema": schema}}},
            "default": {
                "description": "The request is wrong (4xx), the model failed (500), or the server "
                "is busy, starts or shuts down (503).",
                "content": {"application/json": {"schema": _ref("Error")}},
            },
        },
    }
    if handler.__name__ in ("healthz", "readyz"):
        found["security"] = []
    if path in shapes:
        rows: dict[str, Any] = {"schema": _ref("Query" if path == "/explain" else "Rows")}
        if served.background is not None:
            first = rows_of(served.background, slice(0, 1))
            rows["example"] = {"rows": [plain_row(first, column_names(first))]}
        body = {"application/json": rows, "text/csv": {"schema": {"type": "string"}}}
    elif path.endswith("/infer"):
        tensors = _list(_ref("Tensor")) | {"minItems": 1}
        body = {"application/json": {"schema": _object({"inputs": tensors})}}
    else:
        body = {}
    if body:
        found["requestBody"] = {"required": True, "content": body}
    if path == "/predict":
        found["parameters"] = _parameters(served)
    return found


def _parameters(served: ServedModel) -> list[dict[str, Any]]:
    """Return the options of predictions; some only if the model has them."""
    share = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
    flag = {"type": "boolean"}
    known = {
        "coverage": ("Adds intervals or label sets with this coverage.", share),
        "typicality": ("Adds the typicality of each row.", flag),
        "by": ("Columns; the coverage holds in each group.", _list({"enum": served.columns})),
        "by_class": ("The coverage holds in each class.", flag),
        "abstain": ("Predicts null where the error rate would be larger.", share),
        "cost_matrix": (
            "Predicts labels of least cost; JSON, true labels by predicted ones.",
            {"type": "string"},
        ),
    }
    return [
        {"name": name, "in": "query", "description": description, "schema": schema}
        for name, (description, schema) in known.items()
        if name in ("coverage", "typicality", *served.options)
    ]


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
