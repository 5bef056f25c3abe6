"""A client of the Open Inference Protocol from PyPI talks to a served model, as it comes."""

import threading
import time

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline

from vicinal.table import TableEncoder

pytest.importorskip("uvicorn")
triton = pytest.importorskip(
    "tritonclient.http", reason="the client is not there: pip install 'tritonclient[http]'"
)


@pytest.fixture(scope="module")
def listening():
    """Return a function that serves a model and gives a client of it."""
    import uvicorn

    from vicinal.serve import create_app

    running = []

    def listen(model, name):
        app = create_app(model, name=name)
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        running.append((server, thread))
        while not (server.started and app.state.server.is_warm):
            time.sleep(0.02)
        port = server.servers[0].sockets[0].getsockname()[1]
        return triton.InferenceServerClient(f"127.0.0.1:{port}")

    yield listen
    for server, thread in running:
        server.should_exit = True
        thread.join(300)


@pytest.fixture(scope="module")
def iris(listening):
    X, y = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=500).fit(X, y)
    return model, X, listening(model, "iris")


def array(name, values, kind, binary):
    tensor = triton.InferInput(name, list(values.shape), kind)
    tensor.set_data_from_numpy(values, binary_data=binary)
    return tensor


def test_the_server_is_live_and_the_model_ready(iris):
    client = iris[2]
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("iris")
    assert client.is_model_ready("iris", "1")
    assert not client.is_model_ready("another")
    assert "binary_tensor_data" in client.get_server_metadata()["extensions"]
    found = client.get_model_metadata("iris")
    assert [output["name"] for output in found["outputs"]] == ["predict", "predict_proba"]


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize(("kind", "dtype"), [("FP64", np.float64), ("FP32", np.float32)])
def test_predictions_are_the_models(iris, binary, kind, dtype):
    model, X, client = iris
    rows = X[::15].astype(dtype)
    found = client.infer("iris", [array("rows", rows, kind, binary)])
    np.testing.assert_array_equal(found.as_numpy("predict"), model.predict(rows))
    expected = model.predict_proba(rows.astype(np.float64))
    np.testing.assert_allclose(found.as_numpy("predict_proba"), expected, rtol=1e-12)


def test_one_output_can_be_selected(iris):
    model, X, client = iris
    wanted = [triton.InferRequestedOutput("predict", binary_data=False)]
    found = client.infer("iris", [array("rows", X[:3], "FP64", True)], outputs=wanted)
    assert found.as_numpy("predict").tolist() == model.predict(X[:3]).tolist()
    assert found.as_numpy("predict_proba") is None


@pytest.mark.parametrize("binary", [True, False])
def test_strings_and_numbers_are_separate_inputs(listening, binary):
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"age": np.arange(20.0, 60.0), "city": ["Rome", "Malmö"] * 20})
    model = make_pipeline(TableEncoder(), LinearRegression()).fit(table, table["age"] ** 2)
    inputs = [
        array("city", table["city"].to_numpy(dtype=object), "BYTES", binary),
        array("age", table["age"].to_numpy(), "FP64", binary),
    ]
    found = listening(model, "people").infer("people", inputs)
    np.testing.assert_allclose(found.as_numpy("predict"), model.predict(table), rtol=1e-12)


def test_mistakes_are_reported_to_the_client(iris):
    client = iris[2]
    with pytest.raises(triton.InferenceServerException, match="7 columns, but the model expects 4"):
        client.infer("iris", [array("rows", np.zeros((2, 7)), "FP64", True)])
