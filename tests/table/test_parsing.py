from datetime import datetime

import numpy as np
import pytest

from vicinal.table.parsing import (
    ReadFrame,
    as_numbers,
    date_formats_of,
    decimal_of,
    numbers_in,
    parse_date,
    parse_number,
    read_column,
    unit_of,
)


@pytest.mark.parametrize(
    ("text", "decimal", "number"),
    [
        ("12", ".", 12),
        ("-1.5e-3", ".", -0.0015),
        ("$1,234.50", ".", 1234.5),
        ("1,234.50 EUR", ".", 1234.5),
        ("CHF 1'234.50", ".", 1234.5),
        ("1,234,567", ".", 1234567),
        ("1.234.567,5", ",", 1234567.5),
        ("1 234,5", ",", 1234.5),
        ("1'234.5", ".", 1234.5),
        ("12,5", ",", 12.5),
        ("15%", ".", 0.15),
        ("7,5 %", ",", 0.075),
        ("€ 30", ".", 30),
        ("(12.5)", ".", -12.5),
        (".5", ".", 0.5),
    ],
)
def test_numbers_in_disguise(text, decimal, number):
    assert parse_number(text, decimal) == number


@pytest.mark.parametrize(
    "text",
    [
        "12,5",
        "1,23,456",
        "CA 46022",
        "EUROPE 12",
        "1_000",
        "inf",
        "nan",
        "",
        "$",
        "%",
        "12-13",
        "0x1F",
    ],
)
def test_what_is_no_number_with_a_decimal_point(text):
    assert np.isnan(parse_number(text))


def test_decimal_mark_is_the_one_that_reads_most():
    assert decimal_of(["1.5", "2"]) == (".", [])
    assert decimal_of(["1.234,5", "2.000"]) == (",", [])
    assert decimal_of(["1,234", "2,000"]) == (".", [])  # thousands, where both would do
    assert decimal_of(["12,5", "7", "old"]) == (",", ["old"])


@pytest.mark.parametrize(
    ("texts", "formats"),
    [
        (["2020-12-31", "2021-01-01"], ("iso",)),
        (["2020-12-31T10:00:00Z", "2021-01-01 08:30"], ("iso",)),
        (["31.12.2020", "01.02.2021"], ("%d.%m.%Y",)),
        (["12/31/2020", "1/2/2021"], ("%m/%d/%Y",)),
        (["31/12/2020", "1/2/2021"], ("%d/%m/%Y",)),
        (["12/31/20 10:30", "1/2/21 00:15"], ("%m/%d/%y %H:%M",)),
        (["Jan 3, 2020", "Dec 24, 2021"], ("%b %d, %Y",)),
        (["Dec-2011", "Jan-2012"], ("%b-%Y",)),
        (["2020-01", "2021-12"], ("%Y-%m",)),
        (["3/14/2020 2:30 PM", "12/1/2020 11:05 AM"], ("%m/%d/%Y %I:%M %p",)),
        (["14:35", "07:10"], ("%H:%M",)),
        (["2020-12-31"] * 3 + ["25/03/2021", "01/02/2021"], ("iso", "%d/%m/%Y")),
        (["31.12.20", "31.12.2020", "1.2.21"], ("%d.%m.%y", "%d.%m.%Y")),
        (["13/2/2020", "14/3/2020", "2/15/2020"], ()),  # which of 2/3/2020 would it be?
        (["2020-12-31", "14:35"], ()),
        (["Rome", "Oslo"], ()),
        (["A-1", "B-2"], ()),
        (["10-20", "20-30"], ()),
    ],
)
def test_formats_of_dates(texts, formats):
    assert date_formats_of(texts, 0.9) == formats


def test_day_and_month_are_those_that_read_most():
    # Nine in ten are dates with the month first, too: all are with the day first.
    texts = [f"{day}/3/2020" for day in range(1, 11)] * 2 + ["25/3/2020", "26/3/2020"]
    assert date_formats_of(texts, 0.9) == ("%d/%m/%Y",)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("120/80", [120, 80]),
        ("52.5, -13.4", [52.5, -13.4]),
        ("10 x 20 x 7.5", [10, 20, 7.5]),
        ("3+1", [3, 1]),
        ("12", []),
        ("2024/00017", []),  # a code
        ("555-1234", []),
        ("6/twelve", []),
    ],
)
def test_several_numbers_in_a_text(text, numbers):
    assert numbers_in(text) == numbers


def test_zone_of_a_date_is_dropped():
    assert parse_date("2020-12-31T10:00:00+02:00", ["iso"]) == datetime(2020, 12, 31, 10)


@pytest.mark.parametrize(
    ("text", "decimal", "unit", "number"),
    [
        ("85 m²", ".", "m²", 85),
        ("85 m2", ".", "m2", 85),
        ("1.250 km2", ".", "km2", 1.25),
        ("1.250,5 kg", ",", "kg", 1250.5),
        ("1 Year", ".", "year", 1),
        ("2 years", ".", "year", 2),
        ("90", ".", "year", 90),
        ("10,000+", ".", "+", 10_000),
        ("500 g", ".", "kg", np.nan),
        ("18-24 years", ".", "year", np.nan),
        ("<0.8", ".", "", 0.8),
        (">= 5", ".", "", 5),
        ("<old", ".", "", np.nan),
    ],
)
def test_units_and_limits(text, decimal, unit, number):
    np.testing.assert_equal(parse_number(text, decimal, unit), float(number))


def test_unit_is_the_most_frequent_one():
    assert unit_of(["1 year", "2 years", "3 months"]) == "year"
    assert unit_of(["12", "$12", "12%", "12 EUR", "red"]) in ("", "eur")
    assert unit_of(["2020-12-31", "10:30", "3/4"]) == ""


def test_numbers_beyond_all_are_gaps():
    """An infinity would stop every model behind the encoder."""
    texts = np.array(["1e999", "-1e999", "2.5"], dtype=object)
    np.testing.assert_array_equal(as_numbers(texts), [np.nan, np.nan, 2.5])


def test_long_digits_with_a_letter_are_recognized_at_once():
    """A pattern that tries every cut of the digits would take minutes."""
    assert np.isnan(parse_number("1" * 100_000 + "x"))


@pytest.mark.parametrize("n_rows", [1, 3, 6])
def test_columns_of_a_frame_are_read_as_their_values(n_rows):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "float": [1.5, np.nan, 3.0] * 2,
            "truth": [True, False, True] * 2,
            "text": ["a", None, " b "] * 2,
            "category": pd.Categorical(["x", None, "y"] * 2, categories=[*"abcdefxy"]),
            "number": pd.Categorical([3, 1, None] * 2),
            "nullable": pd.array([1, None, 3] * 2, dtype="Int64"),
            "day": pd.to_datetime(["2020-01-01", None, "2021-05-05"] * 2, utc=True),
            "span": pd.to_timedelta([1, 2, 3] * 2, unit="h"),
        }
    )[:n_rows]
    found = ReadFrame(frame).arrays
    for j, values in enumerate(found):
        expected = read_column(frame.astype(object), j)
        assert values.dtype == expected.dtype
        np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize("dtype", [complex, np.complex64, object])
def test_complex_numbers_are_refused_by_the_name_of_their_column(dtype):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"size": [1.0, 2.0], "wave": np.array([1 + 2j, 3], dtype=dtype)})
    for read in (lambda: read_column(frame, 1), lambda: ReadFrame(frame)):
        with pytest.raises(ValueError, match="'wave' holds complex numbers.*imaginary parts"):
            read()
    with pytest.raises(ValueError, match="'x1' holds complex numbers"):
        read_column(frame.to_numpy(dtype=object), 1)
