"""The encoder of tables: values by hand, rules for what was not seen, and the way back."""

import datetime
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_linnerud,
    load_wine,
)
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.versions import needs_sklearn

import vicinal
from vicinal.table import TableEncoder

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")

COLUMNS = {
    "age": [30, None, 50, 41],
    "city": ["Rome", "Oslo", None, "Rome"],
    "subscriber": [True, False, True, True],
    "day": [
        datetime.date(2020, 1, 1),
        datetime.date(2020, 1, 2),
        None,
        datetime.date(2021, 2, 3),
    ],
    "wait": [datetime.timedelta(seconds=s) for s in (10, 20, 30, 45)],
}
LIBRARIES = [pandas, polars]
both = pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.__name__)


def encoded(encoder, table):
    return dict(zip(encoder.get_feature_names_out(), encoder.transform(table).T, strict=True))


def mixed_table(n=300, seed=0):
    """Rows of every kind of column, with a target that depends on most of them."""
    rng = np.random.RandomState(seed)
    age, city = rng.randint(18, 80, n), rng.choice([f"city {k}" for k in range(60)], n)
    kind = rng.choice(["red", "green", "blue"], n)
    start = np.datetime64("2020-01-01") + rng.randint(0, 700, n).astype("timedelta64[D]")
    hot = np.array([int(name.split()[1]) % 2 for name in city])
    y = age + 30 * hot + 10 * (kind == "red") + rng.normal(0, 5, n) > 65
    table = pandas.DataFrame(
        {
            "age": np.where(rng.rand(n) < 0.1, np.nan, age),
            "city": city,
            "kind": np.where(rng.rand(n) < 0.1, None, kind),
            "start": start.astype("datetime64[us]"),
            "fee": [f"${value:,.2f}" for value in rng.lognormal(7, 1, n)],
            "note": [f"{kind[i]} thing number {i} of {city[i]}" for i in range(n)],
            "ref": [f"r{rng.randint(10**9):x}{i}" for i in range(n)],
        }
    )
    return table, np.where(y, "yes", "no")


# --- what comes out -----------------------------------------------------------------------------


@both
def test_values_by_hand_for_distances(library):
    table = library.DataFrame(COLUMNS)
    found = encoded(TableEncoder().fit(table), table)
    np.testing.assert_array_equal(found["age"], [30, 41, 50, 41])
    np.testing.assert_array_equal(found["age missing"], [0, 1, 0, 0])
    np.testing.assert_array_equal(found["city = Rome"], [1, 0, 0, 1])
    np.testing.assert_array_equal(found["city = (missing)"], [0, 0, 1, 0])
    np.testing.assert_array_equal(found["subscriber"], [1, 0, 1, 1])
    np.testing.assert_array_equal(found["day year"], [2020, 2020, 2020, 2021])
    np.testing.assert_array_equal(found["day month"], [1, 1, 1, 2])
    np.testing.assert_array_equal(found["day day"], [1, 2, 2, 3])
    np.testing.assert_array_equal(found["day weekday"], [3, 4, 3, 3])
    np.testing.assert_array_equal(np.diff(found["day days"])[:1], [1])
    np.testing.assert_array_equal(found["day missing"], [0, 0, 1, 0])
    np.testing.assert_array_equal(found["wait"], [10, 20, 30, 45])


@both
def test_values_by_hand_for_trees(library):
    table = library.DataFrame(COLUMNS)
    encoder = TableEncoder("tree").fit(table)
    found = encoded(encoder, table)
    nan = np.nan
    np.testing.assert_array_equal(found["age"], [30, nan, 50, 41])
    np.testing.assert_array_equal(found["city"], [0, 1, nan, 0])
    np.testing.assert_array_equal(found["day year"], [2020, 2020, nan, 2021])
    names = encoder.get_feature_names_out()
    assert names[encoder.categorical_features_].tolist() == ["city"]


def test_both_libraries_and_object_columns_give_the_same_numbers():
    table, y = mixed_table()
    for encoding in ("distance", "tree"):
        encoder = TableEncoder(encoding).fit(table, y)
        expected = encoder.transform(table)
        for other in (polars.from_pandas(table), table.astype(object), table.convert_dtypes()):
            again = TableEncoder(encoding).fit(other, y)
            np.testing.assert_array_equal(
                again.get_feature_names_out(), encoder.get_feature_names_out()
            )
            np.testing.assert_allclose(again.transform(other), expected, rtol=1e-12)
            np.testing.assert_allclose(encoder.transform(other), expected, rtol=1e-12)


def test_kinds_are_decided_from_values():
    table, y = mixed_table()
    table["zip"] = [f"{k % 7:05d}" for k in range(300)]
    table["share"] = [f"{k % 11},5%" for k in range(300)]
    table["reported"] = [f"{k % 28 + 1}.{k % 12 + 1}.2021" for k in range(300)]
    table["size"] = ["big" if k % 100 == 0 else str(k / 4) for k in range(300)]
    table["nothing"] = None
    table["same"] = "x"
    table["PassengerId"] = np.arange(300) * 3 + 5
    table["list"] = [[k] for k in range(300)]
    encoder = TableEncoder().fit(table, y)
    assert encoder.kinds_ == {
        "age": "number",
        "city": "category",
        "kind": "category",
        "start": "date",
        "fee": "number",
        "note": "text",
        "ref": "drop",
        "zip": "category",
        "share": "number",
        "reported": "date",
        "size": "number",
        "nothing": "drop",
        "same": "drop",
        "PassengerId": "drop",
        "list": "drop",
    }
    assert encoder.decisions_ == [
        "missing values filled with the median and marked: 'age'",
        "more than 32 categories, encoded by their target statistics: 'city'",
        "dates as parts of the calendar and a count of days: 'start', 'reported'",
        f"numbers read from text: 'fee' ({table['fee'][0]!r}), 'share' ('0,5%')",
        "free text as 10 latent columns: 'note'",
        "left out, an identifier: 'ref', 'PassengerId'",
        "digits with leading zeros, taken as codes: 'zip'",
        "numbers, and strings that count as missing: 'size' ('big')",
        "left out, no value: 'nothing'",
        "left out, one value in all rows: 'same'",
        "left out, nested values: 'list'",
    ]


def test_units_limits_and_times_of_day_are_numbers():
    rng = np.random.RandomState(0)
    areas, hours, doses = rng.randint(20, 300, 60), rng.randint(0, 24, 60), rng.rand(60).round(2)
    table = pandas.DataFrame(
        {
            "area": [f"{area} m²" for area in areas],
            "at": [f"{hour:02d}:30" for hour in hours],
            "dose": ["<0.1" if dose < 0.1 else str(dose) for dose in doses],
            "age": rng.choice(["<30", ">30"], 60),  # categories, not numbers
            "term": rng.choice(["1 year", "2 years"], 60),
        }
    )
    encoder = TableEncoder().fit(table)
    assert encoder.kinds_ == {
        "area": "number",
        "at": "date",
        "dose": "number",
        "age": "category",
        "term": "number",
    }
    found = encoded(encoder, table)
    np.testing.assert_array_equal(found["area"], areas)
    np.testing.assert_array_equal(found["at hour"], hours + 0.5)
    np.testing.assert_array_equal(found["dose"], np.maximum(doses, 0.1))
    assert set(found["term"]) == {1.0, 2.0}
    back = encoder.inverse_transform(encoder.transform(table[:1]))[0]
    assert back[:2].tolist() == [areas[0], f"{hours[0]:02d}:30:00"]
    declared = TableEncoder(kinds={"area": "number"}).fit(table[["area"]])
    np.testing.assert_array_equal(declared.transform(table[["area"]])[:, 0], areas)


def several_kinds(n=60):
    rng = np.random.RandomState(0)
    drinks = ["tea", "water", "milk", "juice", "wine"]
    return pandas.DataFrame(
        {
            "customerID": rng.randint(1000, 1030, n),
            "Invoice Number": rng.permutation(n) + 5000,
            "pressure": [f"{a}/{b}" for a, b in rng.randint(60, 160, (n, 2))],
            "drinks": [";".join(d for d in drinks if rng.rand() < 0.5) for _ in range(n)],
            "day": [
                f"{k % 28 + 1:02d}/03/2021" if k % 3 else f"2021-04-{k % 28 + 1:02d}"
                for k in range(n)
            ],
        }
    )


@pytest.mark.parametrize("encoding", ["distance", "tree"])
def test_keys_several_numbers_choices_and_dates_in_two_formats(encoding):
    table = several_kinds()
    encoder = TableEncoder(encoding, max_categories=10, unseen="ignore")
    encoder.fit(table, np.arange(60.0))
    assert encoder.kinds_ == {
        "customerID": "category",
        "Invoice Number": "drop",
        "pressure": "numbers",
        "drinks": "choices",
        "day": "date",
    }
    assert encoder.remarks_["customerID"][0] == "numbers of a key that repeat, taken as codes"
    assert "dates written in 2 ways" in encoder.remarks_["day"]
    new = pandas.DataFrame(
        {
            "customerID": [1001, 5],
            "Invoice Number": 0,
            "pressure": ["130/85", "high"],
            "drinks": ["milk; tea;beer", None],
            "day": ["25/03/2021", "2021-04-24"],
        }
    )
    found = encoded(encoder, new)
    high = (
        (np.nan, np.nan)
        if encoding == "tree"
        else np.median([[float(n) for n in cell.split("/")] for cell in table["pressure"]], axis=0)
    )
    np.testing.assert_array_equal(found["pressure 1"], [130, high[0]])
    np.testing.assert_array_equal(found["pressure 2"], [85, high[1]])
    for drink in ("tea", "milk", "water"):
        assert found[f"drinks has {drink}"].tolist() == [drink != "water", 0]
    np.testing.assert_array_equal(np.diff(found["day days"]), [30])
    back = encoder.inverse_transform(encoder.transform(new))[0]
    assert back[2] == "130 / 85"
    assert set(back[3].split(";")) == {"tea", "milk"}
    assert encoder.transform(new[["day", "drinks", "pressure", "customerID"]]).shape[0] == 2


def test_a_number_that_may_stand_for_a_gap_is_named():
    rng = np.random.RandomState(0)
    table = pandas.DataFrame({"celsius": 20 + rng.rand(40), "debt": -rng.randint(0, 1500, 40)})
    assert TableEncoder().fit(table).decisions_ == []
    table.loc[:3, "celsius"] = -999
    table.loc[:3, "debt"] = -999
    line = "-999 is far from all other values; leave the cell empty if it means missing: 'celsius'"
    assert TableEncoder().fit(table).decisions_ == [line]


def test_several_numbers_and_choices_can_be_declared():
    table = pandas.DataFrame({"score": ["3+1", "2+0", None, "3+2"], "has": ["a,b", "b", "", "a"]})
    encoder = TableEncoder(kinds={"score": "numbers", "has": "choices"}).fit(table)
    names = ["score 1", "score 2", "score missing", "has has a", "has has b"]
    assert encoder.get_feature_names_out().tolist() == names
    assert encoder.transform(table)[2].tolist() == [3, 1, 1, 0, 0]
    with pytest.raises(ValueError, match="no numbers can be read from 'a,b'"):
        TableEncoder(kinds={"has": "numbers"}).fit(table)


@pytest.mark.parametrize("name", ["customer_id", "Customer ID", "customerId", "id", "PatientID"])
def test_numbers_of_a_key_have_no_order(name):
    rng = np.random.RandomState(0)
    repeated = pandas.DataFrame({name: rng.randint(0, 9, 40), "paid": rng.randint(0, 9, 40)})
    assert list(TableEncoder().fit(repeated).kinds_.values()) == ["category", "number"]
    unique = repeated.assign(**{name: rng.permutation(40)})
    assert list(TableEncoder().fit(unique).kinds_.values()) == ["drop", "number"]


@pytest.mark.parametrize("missing", ["", "n/a", "N/A", "#N/A", "-", "--", "?", "null"])
def test_texts_that_stand_for_a_missing_value(missing):
    table = pandas.DataFrame(
        {"x": [missing, "red", "blue", "red"], "n": ["1.5", missing, "2", "3"]}
    )
    found = encoded(TableEncoder("tree").fit(table), table)
    np.testing.assert_array_equal(np.isnan(found["x"]), [True, False, False, False])
    np.testing.assert_array_equal(np.isnan(found["n"]), [False, True, False, False])


def test_kinds_can_be_declared():
    table = pandas.DataFrame({"zip": [1, 2, 3, 1], "x": [1.0, 2.0, 3.0, 4.0], "z": [4, 3, 2, 1]})
    encoder = TableEncoder(kinds={"zip": "category", "z": "drop"}).fit(table)
    assert encoder.get_feature_names_out().tolist() == ["zip = 1", "zip = 2", "zip = 3", "x"]
    # A category is the same whether it is read as text, as a whole number or as a float.
    expected = encoder.transform(table)
    for dtype in (str, float):
        np.testing.assert_array_equal(encoder.transform(table.astype({"zip": dtype})), expected)
    with pytest.raises(ValueError, match="kinds\\['zip'\\]='label' is unknown"):
        TableEncoder(kinds={"zip": "label"}).fit(table)
    with pytest.raises(ValueError, match="kinds names 'zap'"):
        TableEncoder(kinds={"zap": "category"}).fit(table)


def test_declared_dates_are_read_in_their_own_form():
    days = [f"{day:02d}.03.2021" for day in range(1, 9)]
    encoder = TableEncoder(kinds={"day": "date"}).fit(pandas.DataFrame({"day": days}))
    ours = encoder.transform(pandas.DataFrame({"day": days}))
    iso = pandas.DataFrame({"day": [f"2021-03-{day:02d}" for day in range(1, 9)]})
    np.testing.assert_array_equal(ours, TableEncoder(kinds={"day": "date"}).fit_transform(iso))
    with pytest.raises(ValueError, match="no date can be read from 'soon'"):
        TableEncoder(kinds={"day": "date"}).fit(pandas.DataFrame({"day": ["soon", "later"]}))


def test_latent_columns_are_those_of_skrub():
    skrub = pytest.importorskip("skrub")
    table, _ = mixed_table()
    ours = TableEncoder(kinds={"note": "text"}).fit_transform(table[["note"]])
    theirs = skrub.StringEncoder(n_components=10, random_state=0).fit_transform(table["note"])
    gram, expected = ours @ ours.T, theirs.to_numpy() @ theirs.to_numpy().T
    np.testing.assert_allclose(gram, expected, atol=2e-3 * np.abs(expected).max())


# --- what was not seen --------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["distance", "tree"])
def test_rows_of_prediction_are_never_an_error(encoding):
    """New categories and missing values, strings among numbers and the reverse, other types."""
    table, y = mixed_table()
    encoder = TableEncoder(encoding, unseen="ignore").fit(table, y)
    strange = pandas.DataFrame(
        {
            "age": ["old", "31", None],
            "city": ["Atlantis", None, 7],
            "kind": [None, "violet", 3.0],
            "start": ["someday", None, "2020-02-03"],
            "fee": [12.0, None, float("inf")],
            "note": [None, "", "a new text altogether"],
        }
    )
    found = encoded(encoder, strange)
    if encoding == "tree":
        assert np.isnan(found["age"][[0, 2]]).all()
        assert np.isnan(found["kind"]).all()
        assert np.isnan(found["fee"][1:]).all()
    else:
        assert np.isfinite(encoder.transform(strange)).all()
        np.testing.assert_array_equal(found["age missing"], [1, 0, 1])
        np.testing.assert_array_equal(found["kind = (missing)"], [1, 1, 1])
    share = found["city share of yes"]
    assert share[0] == pytest.approx(np.mean(y == "yes"))  # a category that was not seen: all rows
    assert found["start days"][2] == (datetime.date(2020, 2, 3) - datetime.date(1970, 1, 1)).days


def test_levels_that_were_not_seen_by_rule():
    table = pandas.DataFrame({"two": ["a", "a", "b"] * 4, "three": ["x", "y", "z"] * 4})
    encoder = TableEncoder(unseen="ignore").fit(table)
    found = encoded(encoder, pandas.DataFrame({"two": ["new", None], "three": ["new", None]}))
    np.testing.assert_array_equal(found["two = b"], [0, 0])  # the more frequent of the two
    for category in "xyz":
        np.testing.assert_array_equal(found[f"three = {category}"], [0, 0])


def test_rare_and_unknown_levels_share_a_column_without_a_target():
    table = pandas.DataFrame({"city": ["a"] * 5 + ["b"] * 4 + ["c", "d", "e"]})
    encoder = TableEncoder(max_categories=3, unseen="ignore").fit(table)
    assert encoder.get_feature_names_out().tolist() == ["city = a", "city = b", "city = (other)"]
    unseen = encoder.transform(pandas.DataFrame({"city": ["b", "z", None]}))
    np.testing.assert_array_equal(unseen, [[0, 1, 0], [0, 0, 1], [0, 0, 1]])


@both
def test_columns_are_found_by_name_and_others_ignored(library):
    table = library.DataFrame(COLUMNS)
    encoder = TableEncoder().fit(table)
    names = ["city", "wait", "day", "subscriber", "age"]
    shuffled = library.DataFrame({"new": [1] * 4, **{name: COLUMNS[name] for name in names}})
    np.testing.assert_array_equal(encoder.transform(shuffled), encoder.transform(table))
    with pytest.raises(ValueError, match="lacks the column 'age'.*it has 'city'"):
        encoder.transform(table[["city", "wait", "day", "subscriber"]])


def test_arrays_are_taken_by_position():
    X = np.array([[1.0, np.nan], [2.0, 3.0], [4.0, 5.0]])
    encoder = TableEncoder().fit(X)
    assert encoder.get_feature_names_out().tolist() == ["x0", "x1", "x1 missing"]
    objects = np.array([["a", 1], ["b", 2], ["c", None]], dtype=object)
    np.testing.assert_array_equal(
        TableEncoder().fit_transform(objects)[:, 3:], [[1, 0], [2, 0], [1.5, 1]]
    )


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.__name__)
def test_bad_tables_are_named(library):
    with pytest.raises(ValueError, match="no column is left.*one value in all rows: 'a'"):
        TableEncoder().fit(library.DataFrame({"a": [1, 1]}))
    with pytest.raises(ValueError, match="0 sample"):
        TableEncoder().fit(library.DataFrame({"a": [1, 2]})[:0])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        TableEncoder().fit(library.DataFrame({"a": [1, 2]}), [1])
    if library is pandas:
        with pytest.raises(ValueError, match="X has 2 columns named 'a'"):
            TableEncoder().fit(pandas.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]))
    else:
        with pytest.raises(TypeError, match=r"collect\(\)"):
            TableEncoder().fit(polars.DataFrame({"a": [1, 2]}).lazy())


# --- the target ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["binary", "multiclass", "continuous"])
def test_no_row_sees_its_own_target(kind):
    """With random labels and categories of three rows, in-sample statistics would leak."""
    rng = np.random.RandomState(0)
    n = 600
    table = pandas.DataFrame({"category": [f"l{k}" for k in rng.randint(0, 200, n)]})
    y = {
        "binary": rng.randint(0, 2, n),
        "multiclass": rng.choice(["a", "b", "c"], n),
        "continuous": rng.normal(size=n),
    }[kind]
    encoder = TableEncoder()
    crossed = encoder.fit_transform(table, y)
    leaking = encoder.transform(table)
    number = (y == "a") * 1.0 if kind == "multiclass" else y
    assert crossed.shape[1] == (3 if kind == "multiclass" else 1)
    assert abs(np.corrcoef(crossed[:, 0], number)[0, 1]) < 0.12
    assert np.corrcoef(leaking[:, 0], number)[0, 1] > 0.35


def test_statistics_of_the_target_are_those_of_scikit_learn():
    from sklearn.preprocessing import TargetEncoder

    table, y = mixed_table()
    encoder = TableEncoder(kinds=dict.fromkeys(set(table) - {"city"}, "drop")).fit(table, y)
    expected = (
        TargetEncoder(target_type="binary").fit(table[["city"]], y).transform(table[["city"]])
    )
    np.testing.assert_allclose(encoder.transform(table), expected)


@pytest.mark.filterwarnings("ignore:some values are unlike")  # of folds
def test_pipelines_learn_from_mixed_tables():
    table, y = mixed_table(400)
    linear = make_pipeline(TableEncoder(), StandardScaler(), LogisticRegression(C=0.1))
    boosted = make_pipeline(TableEncoder("tree"), HistGradientBoostingClassifier(random_state=0))
    assert cross_val_score(linear, table, y, cv=3).mean() > 0.8
    assert cross_val_score(boosted, polars.from_pandas(table), y, cv=3).mean() > 0.8


# --- names, sources, the way back ---------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["distance", "tree"])
def test_every_encoded_column_knows_its_source(encoding):
    table, y = mixed_table()
    encoder = TableEncoder(encoding).fit(table, y)
    names = encoder.get_feature_names_out()
    assert (
        len(names) == len(set(names)) == len(encoder.sources_) == encoder.transform(table).shape[1]
    )
    for source, outputs in encoder.input_to_outputs_.items():
        assert names[encoder.sources_ == source].tolist() == outputs
    assert set(encoder.sources_) == set(table) - {"ref"}


@pytest.mark.parametrize("encoding", ["distance", "tree"])
def test_encoded_rows_are_read_back(encoding):
    table, y = mixed_table()
    encoder = TableEncoder(encoding).fit(table, y)
    back = pandas.DataFrame(
        encoder.inverse_transform(encoder.transform(table)), columns=list(table)
    )
    for name in ("kind", "age"):
        assert back[name].isna().tolist() == table[name].isna().tolist()
        known = table[name].notna()
        assert back[name][known].tolist() == table[name][known].tolist()
    assert back["start"].tolist() == [str(day)[:10] for day in table["start"]]
    fees = [float(text.replace("$", "").replace(",", "")) for text in table["fee"]]
    np.testing.assert_allclose(back["fee"].astype(float), fees)
    # Of categories with the same statistics any will do.
    statistics = encoded(encoder, table)["city share of yes"]
    again = encoder.transform(table.assign(city=back["city"]))
    at = encoder.get_feature_names_out().tolist().index("city share of yes")
    np.testing.assert_allclose(again[:, at], statistics)
    assert back["note"].isna().all()
    assert back["ref"].isna().all()
    with pytest.raises(ValueError, match="encoded rows have"):
        encoder.inverse_transform(np.zeros((2, 3)))


@both
def test_frames_out(library):
    table = library.DataFrame(COLUMNS)
    encoder = TableEncoder().set_output(transform=library.__name__)
    found = encoder.fit_transform(table)
    assert isinstance(found, library.DataFrame)
    assert list(found.columns) == encoder.get_feature_names_out().tolist()


def test_what_was_learned_is_plain():
    """Texts, numbers, arrays, containers and estimators: nothing that a file would have to call."""
    table, y = mixed_table()
    encoder = TableEncoder().fit(table, y)
    plain = (str, int, float, bool, np.ndarray, np.generic, type(None))

    def walk(value):
        if isinstance(value, dict):
            for part in (*value.keys(), *value.values()):
                walk(part)
        elif isinstance(value, list | tuple):
            for part in value:
                walk(part)
        elif not isinstance(value, plain):
            assert type(value).__module__.split(".")[0] in ("vicinal", "sklearn", "scipy"), value
            assert not callable(value) or hasattr(value, "get_params"), value
            if type(value).__module__.startswith("vicinal"):
                walk(vars(value))

    walk(vars(encoder))
    twin = pickle.loads(pickle.dumps(encoder))
    np.testing.assert_array_equal(twin.transform(table), encoder.transform(table))
    np.testing.assert_array_equal(
        clone(encoder).fit(table, y).transform(table), encoder.transform(table)
    )


@needs_sklearn("1.7", "names of a polars frame without pandas")
@pytest.mark.parametrize(("kept", "hidden"), [("pandas", "polars"), ("polars", "pandas")])
def test_a_frame_needs_its_own_library_only(kept, hidden):
    code = (
        "import sys\n"
        f"sys.modules[{hidden!r}] = sys.modules['skrub'] = None\n"
        f"import {kept} as library\n"
        "from vicinal.table import TableEncoder\n"
        "table = library.DataFrame({'a': [1.5, None, 2.0], 'b': ['x', 'y', None]})\n"
        "print(TableEncoder().fit_transform(table, [0, 1, 0]).shape)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(Path(vicinal.__path__[0]).parent)},
        capture_output=True,
        text=True,
    )
    assert result.stdout.strip() == "(3, 5)", result.stderr


@pytest.mark.filterwarnings("ignore:some values are unlike")  # cities of rows of weight 0
def test_bootstrap_ensembles_hand_frames_to_their_estimators():
    from vicinal import BootstrapEnsembleClassifier, BootstrapEnsembleRegressor

    table, y = mixed_table(200)
    learner = make_pipeline(TableEncoder(), StandardScaler(), LogisticRegression(C=0.1))
    weights = np.where(np.arange(200) % 10 == 0, 0.0, 1.0)
    for frame in (table, polars.from_pandas(table)):
        model = BootstrapEnsembleClassifier(learner, n_estimators=5, random_state=0)
        model.fit(frame, y, sample_weight=weights)
        assert np.mean(model.predict(frame) == y) > 0.75
        assert model.predict_proba(frame).shape == (200, 2)
        assert model.feature_names_in_.tolist() == list(table)
    tree = make_pipeline(TableEncoder("tree"), HistGradientBoostingRegressor(max_iter=10))
    ages = table["age"].fillna(40.0).to_numpy()
    model = BootstrapEnsembleRegressor(tree, n_estimators=5, random_state=0).fit(table, ages)
    assert model.predict_interval(table).shape == (200, 2)


def test_categories_may_be_declared_by_their_type():
    codes = [3, 1, 2] * 10
    table = pandas.DataFrame({"code": pandas.Categorical(codes), "x": np.arange(30.0) ** 2})
    other = polars.DataFrame({"code": [str(c) for c in codes], "x": np.arange(30.0) ** 2})
    other = other.with_columns(polars.col("code").cast(polars.Categorical))
    for frame in (table, other):
        encoder = TableEncoder().fit(frame)
        assert encoder.kinds_ == {"code": "category", "x": "number"}
        np.testing.assert_array_equal(encoder.transform(frame)[:3, :3], np.eye(3)[[2, 0, 1]])


def test_dates_in_digits_and_quarters():
    table = pandas.DataFrame(
        {"day": [20200131, 20200201, 20210301, 20220401] * 5, "q": ["1974Q1", "1974Q3"] * 10}
    )
    encoder = TableEncoder().fit(table)
    assert encoder.kinds_ == {"day": "date", "q": "date"}
    assert encoder.inverse_transform(encoder.transform(table))[0].tolist() == [
        "2020-01-31",
        "1974-01-01",
    ]


def test_a_missing_value_with_one_category_comes_back_as_missing():
    table = pandas.DataFrame({"a": ["x", None, "x"], "b": [1.0, 2.0, 3.0]})
    encoder = TableEncoder()
    assert encoder.inverse_transform(encoder.fit_transform(table))[:, 0].tolist() == [
        "x",
        None,
        "x",
    ]


def test_declared_dates_that_are_none_are_refused():
    table = pandas.DataFrame({"a": [1.0, 2.0, 3.0], "b": [1.0, 2.0, 4.0]})
    with pytest.raises(ValueError, match="no date can be read from '1'"):
        TableEncoder(kinds={"a": "date"}).fit(table)


def test_rows_of_a_group_do_not_see_each_others_target():
    """A category of one group alone has no statistics for its rows."""
    groups = np.repeat(np.arange(40), 3)
    table = pandas.DataFrame({"name": [f"n{k}" for k in groups]})
    y = (groups % 2).astype(float)
    encoder = TableEncoder()
    apart = encoder.fit_transform(table, y, groups=groups)[:, 0]
    assert np.ptp(apart) < 0.2
    assert np.corrcoef(encoder.fit_transform(table, y)[:, 0], y)[0, 1] > 0.9
    assert np.corrcoef(encoder.transform(table)[:, 0], y)[0, 1] > 0.9


def test_infinities_one_below_another_are_gaps():
    """Their difference is no number, and no warning of it should reach the user."""
    table = pandas.DataFrame({"a": [np.inf] * 3 + list(range(9))})
    assert np.isnan(TableEncoder("tree").fit_transform(table)[:3, 0]).all()


N = 60
_SHUFFLED = np.random.RandomState(0).permutation(N)
_COUNTED = "left out, it counts the rows"
_NAMED = "left out, an identifier"
_LEFT_OUT = {
    "an unnamed counter": ("", np.arange(1, N + 1), _COUNTED),
    "of polars": ("column_0", np.arange(1, N + 1), _COUNTED),
    "of polars, shuffled": ("column_0", _SHUFFLED, _COUNTED),
    "of pandas, shuffled": ("Unnamed: 0", _SHUFFLED + 1, _COUNTED),
    "of pandas, twice": ("Unnamed: 0.1", np.arange(N), _COUNTED),
    "an index, some rows of it": ("index", 3 * _SHUFFLED, _COUNTED),
    "in row order, any name": ("z", np.arange(N), _COUNTED),
    "as text": ("z", [str(i) for i in range(N)], _COUNTED),
    "whole numbers": ("PatientID", 7 * _SHUFFLED + 1000, _NAMED),
    "one repeats": ("patient_id", np.maximum(7 * _SHUFFLED, 14), _NAMED),
    "digits as text": ("Individual ID", [f"{7 * i + 1000}" for i in _SHUFFLED], _NAMED),
    "several tokens": ("Individual ID", [f"SSC {i:05d} p {i % 3}" for i in range(N)], _NAMED),
    "several numbers": ("sample id", [f"{i}/{i + 3}" for i in _SHUFFLED], _NAMED),
    "no name of an id": ("ref", [f"x{i:x}-{7 * i}" for i in range(N)], _NAMED),
    "joined": ("userid", 5 * _SHUFFLED + 3, _NAMED),
}


@both
@pytest.mark.parametrize("case", _LEFT_OUT)
def test_columns_that_number_or_name_the_rows_are_left_out(library, case):
    name, values, remark = _LEFT_OUT[case]
    table = library.DataFrame({name: values, "x": np.sin(np.arange(N))})
    encoder = TableEncoder().fit(table)
    assert encoder.kinds_ == {name: "drop", "x": "number"}
    assert encoder.decisions_ == [f"{remark}: {name!r}"]
    assert encoder.identifiers_ == [name]
    kept = TableEncoder(drop_identifiers=False).fit(table)
    assert kept.kinds_[name] != "drop"
    assert kept.identifiers_ == []
    declared = TableEncoder(kinds={name: "category"}).fit(table)
    assert declared.kinds_[name] == "category"


_RNG = np.random.RandomState(1)
_KEPT = {
    "a counter of time": ("day", np.arange(N), "number"),
    "from another start": ("z", np.arange(N) + 1950, "number"),
    "shuffled, no name of a key": ("rank", _SHUFFLED, "number"),
    "fractions": ("area", _RNG.uniform(size=N), "number"),
    "prices": ("price", _RNG.choice(100_000, N, replace=False), "number"),
    "time stamps": ("seen", 1_600_000_000 + np.cumsum(_RNG.randint(1, 999, N)), "number"),
    "no row numbers": ("column_0", 1000 * _SHUFFLED, "number"),
    "valid is no id": ("valid", 7 * _SHUFFLED, "number"),
    "an id that repeats": ("customer_id", _SHUFFLED // 3, "category"),
    "an id that sometimes repeats": ("ID", [f"P {i * 3 // 4} A" for i in range(N)], "category"),
    "titles": (
        "name",
        [f"{t} Name{i}" for i in range(N // 3) for t in ("Mr", "Mrs", "Dr")],
        "text",
    ),
    "domains": ("mail", [f"u{i}@{('web.de', 'x.com')[i % 2]}" for i in range(N)], "text"),
    "free text": ("note", [f"seen by {i} on the road to {7 * i}" for i in range(N)], "text"),
}


@both
@pytest.mark.parametrize("case", _KEPT)
def test_columns_that_are_merely_all_different_are_kept(library, case):
    name, values, kind = _KEPT[case]
    encoder = TableEncoder().fit(library.DataFrame({name: values, "x": np.sin(np.arange(N))}))
    assert encoder.kinds_[name] == kind
    assert encoder.identifiers_ == []


@both
def test_the_only_column_may_count_the_rows(library):
    encoder = TableEncoder().fit(library.DataFrame({"x": np.arange(N)}))
    assert encoder.decisions_ == ["kept, though it counts the rows: 'x'"]


@pytest.mark.parametrize(
    "load", [load_iris, load_wine, load_breast_cancer, load_diabetes, load_digits, load_linnerud]
)
def test_tables_of_scikit_learn_lose_no_column_to_identifiers(load):
    X = load(as_frame=True).data
    encoder = TableEncoder().fit(X)
    assert encoder.identifiers_ == []
    varying = X.columns[X.nunique() > 1]
    assert encoder.get_feature_names_out().tolist() == varying.tolist()
    np.testing.assert_array_equal(encoder.transform(X), X[varying].to_numpy())


@pytest.mark.parametrize("freq", ["h", "D", "W", "M", "Q", "Y"])
def test_periods_are_read_as_the_dates_of_their_starts(freq):
    periods = pandas.Series(pandas.period_range("2019-12-28", periods=30, freq=freq))
    periods[3] = pandas.NaT
    starts = pandas.DataFrame({"p": periods.dt.to_timestamp()})
    encoder = TableEncoder().fit(pandas.DataFrame({"p": periods}))
    assert encoder.kinds_ == {"p": "date"}
    expected = TableEncoder().fit(starts)
    np.testing.assert_array_equal(
        encoder.transform(pandas.DataFrame({"p": periods})), expected.transform(starts)
    )


def test_queries_that_are_no_table_are_refused():
    encoder = TableEncoder().fit(pandas.DataFrame({"a": [1.0, 2.0, 4.0]}))
    with pytest.raises(ValueError, match="list of dictionaries"):
        encoder.transform([{"a": 1.0}])
