"""A served model: predictions equal the model's, bad requests get one line."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline

pytest.importorskip("starlette")
from starlette.testclient import TestClient

from vicinal.inspection.colors import color_index
from vicinal.report.explorer import ExplorerPage
from vicinal.serve import create_app, serve
from vicinal.serve._served_model import ServedModel
from vicinal.table import TableEncoder


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=500).fit(X, y)
    return model, X, TestClient(create_app(model, name="iris", table=X))


@pytest.fixture(scope="module")
def people():
    pd = pytest.importorskip("pandas")
    rng = np.random.RandomState(0)
    table = pd.DataFrame(
        {
            "age": rng.randint(18, 80, 80).astype(float),
            "city": rng.choice(["Rome", "<script>alert(1)</script>"], 80),
        }
    )
    y = np.where(table["age"] + 20 * (table["city"] == "Rome") > 55, "yes", "no")
    model = make_pipeline(TableEncoder(), LogisticRegression()).fit(table, y)
    return model, table, TestClient(create_app(model, table=table))


def test_predictions_are_the_models(iris):
    model, X, client = iris
    found = client.post("/predict", json={"rows": X[:7].tolist()}).json()
    assert found["predictions"] == model.predict(X[:7]).tolist()
    np.testing.assert_array_equal(found["probabilities"], model.predict_proba(X[:7]))
    assert found["classes"] == [0, 1, 2]


def test_rows_by_name_and_as_csv(people):
    model, table, client = people
    rows = table.iloc[:3].to_dict("records")
    expected = model.predict(table.iloc[:3]).tolist()
    assert client.post("/predict", json={"rows": rows}).json()["predictions"] == expected
    text = table.iloc[:3].to_csv(index=False)
    reply = client.post("/predict", content=text, headers={"Content-Type": "text/csv"})
    assert reply.json()["predictions"] == expected


def test_codes_in_csv_stay_codes():
    """01234 is another level than 1234."""
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"zip": ["01234", "91234", "01234", "91234"] * 3, "age": np.arange(12.0)})
    model = make_pipeline(TableEncoder(), LogisticRegression()).fit(table, table["zip"] == "01234")
    client = TestClient(create_app(model, table=table))
    headers = {"Content-Type": "text/csv"}
    reply = client.post("/predict", content="zip,age\n01234,3\n91234,3\n", headers=headers)
    assert reply.json()["predictions"] == [True, False]


def test_a_regressor_has_no_classes():
    X, y = load_diabetes(return_X_y=True)
    model = LinearRegression().fit(X, y)
    client = TestClient(create_app(model))
    found = client.post("/predict", json={"rows": X[:2].tolist()}).json()
    assert list(found) == ["predictions"]
    np.testing.assert_array_equal(found["predictions"], model.predict(X[:2]))
    assert client.get("/metadata").json()["task"] == "regression"


def test_intervals_of_a_table_are_conformal():
    X, y = load_diabetes(return_X_y=True)
    model = LinearRegression().fit(X[:200], y[:200])
    client = TestClient(create_app(model, table=X[200:], y=y[200:]))
    rows = {"rows": X[:20].tolist()}
    found = client.post("/predict?coverage=0.8&typicality=true", json=rows).json()
    reach = np.diff(found["intervals"], axis=1) / 2
    off = np.sort(np.abs(y[200:] - model.predict(X[200:])))
    np.testing.assert_allclose(reach, off[int(np.ceil(0.8 * (len(off) + 1))) - 1])
    np.testing.assert_allclose(np.mean(found["intervals"], axis=1), found["predictions"])
    assert all(0 < share <= 1 for share in found["typicality"])


def test_sets_and_support_are_the_models_own(iris_local):
    model, X, client = iris_local
    found = client.post("/predict?coverage=0.95&typicality=true", json={"rows": X[::9].tolist()})
    sets = model.predict_set(X[::9], coverage=0.95)
    assert found.json()["sets"] == [model.classes_[row].tolist() for row in sets]
    np.testing.assert_allclose(found.json()["typicality"], model.typicality(X[::9]))


@pytest.fixture(scope="module")
def iris_local():
    from vicinal.local import LocalClassifier

    X, y = load_iris(return_X_y=True)
    model = LocalClassifier(n_neighbors=40, alpha=1.0, metric="euclidean").fit(X, y)
    return model, X, TestClient(create_app(model))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("coverage=1.5", "between 0 and 1"),
        ("coverage=x", "between 0 and 1"),
        ("coverage=0.9", "no intervals"),
        ("typicality=1", "true or false"),
        ("abstain=0.05", "the option 'abstain' does not exist"),
    ],
)
def test_invalid_options_of_predict(iris, query, message):
    _, X, client = iris
    reply = client.post(f"/predict?{query}", json={"rows": X[:1].tolist()})
    assert reply.status_code == 400
    assert message in reply.json()["error"]


def test_neighbors_are_the_nearest_in_deviations(people):
    model, table, client = people
    row = table.iloc[[5]].to_dict("records")
    found = client.post("/neighbors", json={"rows": row}).json()["neighbors"]
    assert found[0]["distance"] == 0
    assert found[0]["values"] == row[0]
    assert [near["distance"] for near in found] == sorted(near["distance"] for near in found)
    same_city = table[table["city"] == row[0]["city"]]
    nearest = np.sort(np.abs(same_city["age"] - row[0]["age"]))[:8] / table["age"].std(ddof=0)
    np.testing.assert_allclose([near["distance"] for near in found], nearest, atol=1e-12)
    assert found[0]["prediction"] == model.predict(table.iloc[[5]])[0]


def test_a_threshold_decides_everywhere(people):
    from vicinal._base._wrappers import with_threshold

    model, table, _ = people
    share = model.predict_proba(table)[:, 1]
    at = int(np.argsort(share)[len(share) // 5])
    client = TestClient(create_app(with_threshold(model, "yes", share[at]), table=table))
    rows = table.to_dict("records")
    expected = np.where(share >= share[at], "yes", "no").tolist()
    assert client.post("/predict", json={"rows": rows}).json()["predictions"] == expected
    why = client.post("/explain", json={"rows": [rows[at]]}).json()
    assert share[at] < 0.5
    assert why["prediction"] == "yes"
    assert why["sections"]["counterfactual"]["values"]["label"] == "no"
    threshold = client.get("/metadata").json()["threshold"]
    assert threshold == {"label": "yes", "probability": share[at]}


def test_explanations_are_those_of_explain(iris):
    from vicinal.inspection import explain

    model, X, client = iris
    found = client.post("/explain", json={"rows": X[:1].tolist()}).json()
    assert found["text"] == explain(model, X[:1], background=X).text()


def test_health_and_metadata(iris):
    _, _, client = iris
    assert client.get("/healthz").json() == {"status": "ok", "live": True}
    assert client.get("/readyz").json()["ready"]
    assert client.get("/metadata").json()["columns"] == ["x0", "x1", "x2", "x3"]
    missing = client.get("/docs")
    assert missing.status_code == 404
    assert "GET /docs does not exist; the routes are POST /predict, " in missing.json()["error"]


BAD = [
    ("/predict", {"rows": []}, "at least one row"),
    ("/predict", {"rows": "text"}, "at least one row"),
    ("/predict", {"rows": [[1, 2]]}, "list of 4 values"),
    ("/predict", {"rows": [{"x0": 1}]}, "'x1' is missing"),
    ("/predict", {"rows": [dict.fromkeys(("x0", "x1", "x2", "x3"), 1), {"x0": 1}]}, "in row 1"),
    ("/predict", {"rows": [[1, 2, 3, "a"]]}, "'a' in column 'x3', row 0, is not a finite number"),
    ("/predict", {"rows": [[1, 2, 3, 10**400]]}, "is not a finite number"),
    ("/predict", {"rows": [[1, 2, 3, [4]]]}, "lists or objects"),
    ("/predict", {"rows": [[1, 2, 3, None]]}, "NaN"),
]


LONE = [
    ("/predict", r'{"rows": [{"age": 30, "city": "\ud800"}]}'),
    ("/predict", r'{"rows": [{"age": 30, "\udfff": 1, "city": "Rome"}]}'),
    ("/explain", r'{"rows": [{"age": 30, "city": "\ud800\ud800"}]}'),
]


@pytest.mark.parametrize(("path", "text"), LONE)
def test_lone_surrogates_are_refused(people, path, text):
    reply = people[2].post(path, content=text)
    assert reply.status_code == 400
    assert "not valid JSON" in reply.json()["error"]


def test_pairs_of_surrogates_are_text(people):
    text = r'{"rows": [{"age": 30, "city": "\ud83d\ude00"}]}'
    assert people[2].post("/predict", content=text).status_code == 200


@pytest.mark.parametrize("value", ["1e999", "-1e999", '"abc"', '"inf"', '"1e999"'])
@pytest.mark.parametrize("path", ["/predict", "/explain", "/neighbors"])
def test_no_number_in_a_number_column_is_refused(people, value, path):
    text = f'{{"rows": [{{"age": 31, "city": "Rome"}}, {{"age": {value}, "city": "Rome"}}]}}'
    reply = people[2].post(path, content=text)
    assert reply.status_code == 422
    assert "in column 'age', row 1, is not a finite number" in reply.json()["error"]


@pytest.mark.parametrize("cell", ["1e999", "abc", "-inf"])
def test_no_number_in_a_number_column_of_csv_is_refused(people, cell):
    reply = _post_csv(people[2], f"age,city\n31,Rome\n{cell},Rome\n")
    assert reply.status_code == 422
    assert "in column 'age', row 1, is not a finite number" in reply.json()["error"]


def test_missing_numbers_and_names_that_look_like_infinity_are_accepted(people):
    client = people[2]
    reply = _post_csv(client, "age,city\n,Rome\nNA,Rome\n?,Rome\n31,inf\n")
    assert reply.status_code == 200
    first, second, third, _ = reply.json()["probabilities"]
    assert first == second == third


def test_unseen_values_are_warnings_of_the_response(people):
    model, table, client = people
    rows = [{"age": None, "city": "Qo'noS"}, {"age": 30, "city": "Rome"}]
    found = client.post("/predict?typicality=true", json={"rows": rows})
    assert found.status_code == 200
    assert found.json()["warnings"] == [
        "'age': 1 missing value where training rows have none",
        "'city': 1 unseen category such as \"Qo'noS\"",
    ]
    plain = client.post("/predict", json={"rows": rows[1:]}).json()
    assert "warnings" not in plain
    strict = TestClient(create_app(model, table=table, strict=True))
    assert strict.post("/predict", json={"rows": rows[1:]}).status_code == 200
    refused = strict.post("/predict", json={"rows": rows})
    assert (refused.status_code, "unseen category" in refused.text) == (422, True)


def test_infinity_is_refused_by_models_that_would_take_it():
    pd = pytest.importorskip("pandas")
    X, y = load_iris(return_X_y=True)
    frame = pd.DataFrame(X, columns=list("abcd"))
    for table in (X, frame):
        model = HistGradientBoostingClassifier(max_iter=2).fit(table, y)
        client = TestClient(create_app(model, table=table))
        reply = client.post("/predict", content='{"rows": [[1, 2, 3, 1e999]]}')
        assert reply.status_code == 422
        assert "row 0, is not a finite number" in reply.json()["error"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("age,city,age\n1,Rome,2\n", "'age' twice"),
        ("age\n1\n", "'city' is missing"),
        ("age,city\n1,Rome\n2\n", "row 1 of the CSV text has 1 cell,"),
        ("age,city\n", "at least one row"),
        ('age,city\n1,"Rome\n', "is not valid"),
    ],
)
def test_bad_csv_gives_a_message(people, text, message):
    reply = _post_csv(people[2], text)
    assert reply.status_code == 400
    assert message in reply.json()["error"]


def _post_csv(client, text):
    return client.post("/predict", content=text, headers={"Content-Type": "text/csv"})


@pytest.mark.parametrize(("path", "content", "message"), BAD)
def test_bad_requests_give_a_message(iris, path, content, message):
    _, _, client = iris
    reply = client.post(path, json=content)
    assert 400 <= reply.status_code < 500
    assert message in reply.json()["error"]


def test_a_thousand_malformed_requests(iris):
    client = iris[2]
    rng = np.random.RandomState(0)
    good = b'{"rows": [[5.1, 3.5, 1.4, 0.2]]}'
    paths = ["/predict", "/explain", "/neighbors"]
    for _ in range(1000):
        body = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            body[rng.randint(len(body))] = rng.randint(256)
        reply = client.post(rng.choice(paths), content=bytes(body))
        assert reply.status_code < 500, (bytes(body), reply.text)


def test_a_failure_names_no_path():
    class Broken(LogisticRegression):
        def predict_proba(self, X):
            raise RuntimeError("/home/secret/model.bin is gone")

    X, y = load_iris(return_X_y=True)
    client = TestClient(create_app(Broken(max_iter=500).fit(X, y)))
    reply = client.post("/predict", json={"rows": X[:1].tolist()})
    assert reply.status_code == 500
    assert "secret" not in reply.text


def test_all_but_health_needs_a_token(iris):
    client = TestClient(create_app(iris[0], token="s3cret"))
    assert client.get("/metadata").status_code == 401
    assert client.get("/metadata", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert client.get("/metadata", headers={"Authorization": "Bearer s3cret"}).status_code == 200
    assert client.get("/metadata", auth=("", "s3cret")).status_code == 200
    reply = client.get("/metadata", auth=("s3cret", ""))
    assert reply.status_code == 401
    assert reply.headers["www-authenticate"].startswith("Basic")
    assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize("token", ["", "schlüssel", "two parts", "line\n"])
def test_tokens_that_clients_encode_differently_are_refused(iris, token):
    with pytest.raises(ValueError, match="token must consist"):
        create_app(iris[0], token=token)


def test_other_addresses_need_a_token(iris):
    with pytest.raises(ValueError, match="needs a token"):
        serve(iris[0], host="0.0.0.0")


def test_names_of_other_sites_are_refused_without_a_token(iris, monkeypatch):
    import uvicorn

    apps = []
    monkeypatch.setattr(uvicorn.Server, "run", lambda server: apps.append(server.config.app))
    serve(iris[0])
    serve(iris[0], token="s3cret")
    own, with_token = (TestClient(app) for app in apps)
    for host in ("localhost:8000", "127.0.0.1:8000", "[::1]:8000"):
        assert own.get("/metadata", headers={"Host": host}).status_code == 200
    refused = own.get("/metadata", headers={"Host": "evil.example:8000"})
    assert refused.status_code == 400
    assert "evil.example" in refused.json()["error"]
    headers = {"Host": "models.example", "Authorization": "Bearer s3cret"}
    assert with_token.get("/metadata", headers=headers).status_code == 200


def test_the_page_holds_the_columns_and_runs_no_label(people):
    _, _, client = people
    reply = client.get("/")
    assert "alert(1)" in reply.text
    assert "<script>alert" not in reply.text
    policy = reply.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy


def test_numbers_in_strings_have_a_range(people):
    _, table, _ = people
    words = table.assign(age=[f"{age:.0f} years" for age in table["age"]], more=np.arange(80.0))
    words.loc[0, "age"] = "not told"
    model = make_pipeline(TableEncoder(), LinearRegression()).fit(words, words["more"])
    controls = ServedModel(model, "ages", words).page().as_dict()["data"]["controls"]
    assert [control["kind"] for control in controls] == ["number", "category", "number"]
    assert (controls[0]["min"], controls[0]["max"]) == (table["age"].min(), table["age"].max())
    client = TestClient(create_app(model, table=table))
    predicted = [
        client.post("/predict", json={"rows": [{"age": age, "city": "Rome", "more": 1}]}).json()
        for age in (40.0, "40 years")
    ]
    assert predicted[0] == predicted[1]


def test_the_page_starts_from_rows_that_the_model_stores(people):
    from vicinal import AutoClassifier

    model, table, _ = people
    known = AutoClassifier(["linear"], random_state=0).fit(table, model.predict(table))
    for fitted, X in (
        (known, table),
        (AutoClassifier(["linear"]).fit(table[["age"]], table["city"]), table[["age"]]),
    ):
        served = ServedModel(fitted, "people")
        page = served.page().as_dict()["data"]
        assert page["rows"] == X.to_numpy().tolist()
        assert len(served.neighbors(X[:1])["neighbors"]) == 8
    numbers = AutoClassifier(["linear"], random_state=0).fit(
        table[["age"]].to_numpy(), table["city"]
    )
    assert (
        ServedModel(numbers, "numbers").page().as_dict()["data"]["rows"]
        == table[["age"]].to_numpy().tolist()
    )
    controls = ServedModel(model, "people").page().as_dict()["data"]["controls"]
    assert [control["value"] for control in controls] == [None, None]


def test_many_threads_on_one_model(iris):
    from concurrent.futures import ThreadPoolExecutor

    model, X, client = iris
    expected = model.predict(X).tolist()

    def predict_row(i):
        return client.post("/predict", json={"rows": X[i : i + 1].tolist()}).json()["predictions"][
            0
        ]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(predict_row, range(150))) == expected


def test_the_page_has_controls_of_numbers_categories_and_unknown_columns():
    pl = pytest.importorskip("polars")
    table = pl.DataFrame({"a": [1, 5, 2], "b": ["x", "y", "x"], "c": [None, None, None]})
    model = LogisticRegression().fit([[0.0], [1.0]], ["no", "yes"])
    page = ExplorerPage(model, table.columns, table, target="paid").as_dict()["data"]
    number, category, nothing = page["controls"]
    assert (number["min"], number["value"], number["max"], number["step"]) == (1, 2, 5, 1)
    assert (category["kind"], category["categories"]) == ("category", ["x", "y"])
    assert category["value"] == "x"
    assert nothing["kind"] == "unknown"
    assert page["rows"] == [[1, "x", None], [5, "y", None], [2, "x", None]]
    assert page["colors"] == [color_index(0), color_index(1)]
    assert page["target"] == "paid"
