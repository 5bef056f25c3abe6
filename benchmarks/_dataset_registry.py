"""The table of benchmark sets: what each one is, its counts, its names and where it comes from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from string import ascii_uppercase
from types import MappingProxyType

_UCI = "public; cite the UCI Machine Learning Repository and the donors"
_KEEL = "public; cite KEEL and the original authors"
_RESEARCH = "research use under the owners' terms; check them before passing the file on"
_FACES = f"{_RESEARCH}; shows real persons"


@dataclass(frozen=True)
class DatasetInfo:
    """What is known about a benchmark set before it is read.

    Attributes
    ----------
    name : str
        Name of the set, and of its file without ``.npz``.
    title : str
        What the set is, in a few words.
    task : {"classification", "regression"}
        What ``y`` holds.
    n_samples : int
        Training rows of a set with a published split, else all rows.
    n_test : int
        Test rows of the published split; 0 where none was published.
    n_features : int
        Columns of ``X``.
    source : str
        The original, and how its parts became training and test rows.
    terms : str
        What its owners allow.
    classes : tuple of int
        Sorted labels in ``y``; empty for regression.
    class_counts, class_counts_test : tuple of int
        Rows of each class among ``n_samples`` and ``n_test``. A file or a download that does not
        have exactly these is refused.
    target_names : tuple of str
        A name for each class, or the name of the regression target.
    feature_names : tuple of str
        Column names; where the original has none, ``x0, x1, ...``.
    layout : {"dense", "sparse", "mixed"}
        Array, CSR matrix, or table with categorical columns.
    dtype : {"float64", "float32"}
        Type of ``X``. Single precision only for the largest sets, whose values it holds exactly.
    image_shape : tuple of int or None
        Shape of one row seen as an image.
    missing : int or None
        Value that stands for a missing cell in the file; it is returned as NaN.
    extras : tuple of (str, str)
        Further keys of the file, each with the name under which it is returned.
    openml_id : int or None
        Number of the same rows on OpenML, in an order from which the split can be rebuilt.
    sklearn_name : str or None
        Function of :mod:`sklearn.datasets` that gives the same rows.
    file_only : str
        Why no download can replace the file; empty where one can.
    notes : str
        What a user should know before using the set.
    """

    name: str
    title: str
    task: str
    n_samples: int
    n_features: int
    source: str
    terms: str = _UCI
    n_test: int = 0
    classes: tuple[int, ...] = ()
    class_counts: tuple[int, ...] = ()
    class_counts_test: tuple[int, ...] = ()
    target_names: tuple[str, ...] = ()
    feature_names: tuple[str, ...] = field(default=(), repr=False)
    layout: str = "dense"
    dtype: str = "float64"
    image_shape: tuple[int, int] | None = None
    missing: int | None = None
    extras: tuple[tuple[str, str], ...] = ()
    openml_id: int | None = None
    sklearn_name: str | None = None
    file_only: str = ""
    notes: str = ""

    @property
    def has_split(self) -> bool:
        """Whether a division into training and test rows was published."""
        return self.n_test > 0

    @property
    def n_classes(self) -> int:
        """Number of classes; 0 for regression."""
        return len(self.classes)


def _numbered(prefix: str, n: int, start: int = 0) -> tuple[str, ...]:
    return tuple(f"{prefix}{i}" for i in range(start, start + n))


def _pixels(height: int, width: int) -> tuple[str, ...]:
    return tuple(f"pixel_{i}_{j}" for i in range(height) for j in range(width))


_DIGITS = tuple("0123456789")

_SPAM_WORDS = (
    "make address all 3d our over remove internet order mail receive will people report addresses "
    "free business email you credit your font 000 money hp hpl george 650 lab labs telnet 857 data "
    "415 85 technology 1999 parts pm direct cs meeting original project re edu table conference"
).split()

_WDBC_MEASURES = (
    "radius",
    "texture",
    "perimeter",
    "area",
    "smoothness",
    "compactness",
    "concavity",
    "concave points",
    "symmetry",
    "fractal dimension",
)

_ADULT_COLUMNS = (
    "age workclass fnlwgt education education_num marital_status occupation relationship race sex "
    "capital_gain capital_loss hours_per_week native_country"
).split()

_SETS = (
    DatasetInfo(
        name="adult",
        title="US census of 1994, income over 50K",
        task="classification",
        n_samples=32561,
        n_test=16281,
        n_features=14,
        source="UCI Adult, adult.data / adult.test",
        classes=(0, 1),
        class_counts=(24720, 7841),
        class_counts_test=(12435, 3846),
        target_names=("<=50K", ">50K"),
        feature_names=tuple(_ADULT_COLUMNS),
        layout="mixed",
        openml_id=1590,
        notes="Eight columns are categorical; '?' is kept as a category.",
    ),
    DatasetInfo(
        name="airfoil",
        title="airfoil self-noise",
        task="regression",
        n_samples=1503,
        n_features=5,
        source="UCI Airfoil Self-Noise",
        target_names=("sound level, dB",),
        feature_names=(
            "frequency",
            "attack_angle",
            "chord_length",
            "free_stream_velocity",
            "suction_side_displacement_thickness",
        ),
        openml_id=44957,
    ),
    DatasetInfo(
        name="banana",
        title="two banana shapes in the plane",
        task="classification",
        n_samples=5300,
        n_features=2,
        source="Rätsch's IDA benchmark repository",
        terms="public; cite the IDA benchmark repository",
        classes=(-1, 1),
        class_counts=(2924, 2376),
        target_names=("-1", "1"),
        extras=(
            ("in_train", "in_train"),
            ("X_keel", "X_keel"),
            ("y_keel", "y_keel"),
        ),
        file_only=(
            "OpenML 1460 is KEEL's copy, rounded to three digits and without the realisations"
        ),
        notes=(
            "``splits`` holds the first ten of the hundred published realisations, 400 training "
            "and 4900 test rows each, as pairs of row numbers that ``cv=`` accepts; ``in_train`` "
            "(10 x 5300) marks the training rows of each. ``X_keel, y_keel`` are KEEL's copy of "
            "the points, rounded to three digits."
        ),
    ),
    DatasetInfo(
        name="census_income",
        title="US census of 1994 and 1995, income over 50000",
        task="classification",
        n_samples=199523,
        n_test=99762,
        n_features=40,
        source="UCI Census-Income (KDD), census-income.data / census-income.test",
        classes=(0, 1),
        class_counts=(187141, 12382),
        class_counts_test=(93576, 6186),
        target_names=("-50000", "50000+"),
        layout="mixed",
        extras=(
            ("weight100_train", "sample_weight_train"),
            ("weight100_test", "sample_weight_test"),
        ),
        file_only="the copies on OpenML name neither the columns nor the published split",
        notes=(
            "Thirty-three columns are categorical; '?' and 'Not in universe' are kept as "
            "categories. ``sample_weight_train, sample_weight_test`` are the instance weights of "
            "the survey, which are not features."
        ),
    ),
    DatasetInfo(
        name="covtype",
        title="forest cover type",
        task="classification",
        n_samples=581012,
        n_features=54,
        source="UCI Covertype",
        classes=tuple(range(1, 8)),
        class_counts=(211840, 283301, 35754, 2747, 9493, 17367, 20510),
        target_names=(
            "spruce/fir",
            "lodgepole pine",
            "ponderosa pine",
            "cottonwood/willow",
            "aspen",
            "douglas-fir",
            "krummholz",
        ),
        feature_names=(
            "Elevation",
            "Aspect",
            "Slope",
            "Horizontal_Distance_To_Hydrology",
            "Vertical_Distance_To_Hydrology",
            "Horizontal_Distance_To_Roadways",
            "Hillshade_9am",
            "Hillshade_Noon",
            "Hillshade_3pm",
            "Horizontal_Distance_To_Fire_Points",
            *_numbered("Wilderness_Area_", 4),
            *_numbered("Soil_Type_", 40),
        ),
        dtype="float32",
        sklearn_name="fetch_covtype",
        notes=(
            "Ten numeric columns, then 4 and 40 indicator columns. ``partition`` holds the "
            "customary division as slices named train (11340 rows), validation (3780) and test "
            "(565892). The binary task of LIBSVM is ``y == 2`` against the rest."
        ),
    ),
    DatasetInfo(
        name="grid_stability",
        title="stability of a four-node star grid, simulated by its authors",
        task="regression",
        n_samples=10000,
        n_features=12,
        source="UCI Electrical Grid Stability Simulated Data",
        target_names=("stability margin",),
        feature_names=(
            *_numbered("tau", 4, 1),
            *_numbered("p", 4, 1),
            *_numbered("g", 4, 1),
        ),
        openml_id=44973,
    ),
    DatasetInfo(
        name="isolet",
        title="spoken letters of 150 speakers",
        task="classification",
        n_samples=6238,
        n_test=1559,
        n_features=617,
        source="UCI ISOLET, training rows isolet1 to isolet4, test rows isolet5",
        classes=tuple(range(1, 27)),
        class_counts=tuple(238 if i == 6 else 240 for i in range(1, 27)),
        class_counts_test=tuple(59 if i == 13 else 60 for i in range(1, 27)),
        target_names=tuple(ascii_uppercase),
        feature_names=_numbered("f", 617, 1),
        extras=(("part_train", "groups_train"),),
        openml_id=300,
        notes=(
            "``groups_train`` is the part (1 to 4, thirty speakers each) of a training row, for "
            "folds that keep speakers together; it comes with the file only. Training rows of the "
            "file are grouped by part and class, those of OpenML by speaker: same rows, another "
            "order."
        ),
    ),
    DatasetInfo(
        name="laser",
        title="chaotic far-infrared laser, four lagged intensities",
        task="regression",
        n_samples=993,
        n_features=4,
        source="Santa Fe time series A, as prepared by KEEL",
        terms=_KEEL,
        target_names=("next intensity",),
        file_only="KEEL is the place to get it (keel.es, regression data sets)",
    ),
    DatasetInfo(
        name="letter",
        title="letter images, sixteen integer features",
        task="classification",
        n_samples=16000,
        n_test=4000,
        n_features=16,
        source="UCI Letter Recognition, first 16000 / last 4000 rows",
        classes=tuple(range(26)),
        class_counts=(
            *(633, 630, 594, 638, 616, 622, 609, 583, 590, 599, 593, 604, 648),
            *(617, 614, 635, 615, 597, 587, 645, 645, 628, 613, 628, 641, 576),
        ),
        class_counts_test=(
            *(156, 136, 142, 167, 152, 153, 164, 151, 165, 148, 146, 157, 144),
            *(166, 139, 168, 168, 161, 161, 151, 168, 136, 139, 159, 145, 158),
        ),
        target_names=tuple(ascii_uppercase),
        feature_names=(
            *("x-box", "y-box", "width", "high", "onpix", "x-bar", "y-bar", "x2bar"),
            *("y2bar", "xybar", "x2ybr", "xy2br", "x-ege", "xegvy", "y-ege", "yegvx"),
        ),
        openml_id=6,
    ),
    DatasetInfo(
        name="mortgage",
        title="US economic series, 30-year mortgage rate",
        task="regression",
        n_samples=1049,
        n_features=15,
        source="KEEL Mortgage",
        terms=_KEEL,
        target_names=("30-year rate",),
        file_only="KEEL is the place to get it (keel.es, regression data sets)",
    ),
    DatasetInfo(
        name="newsgroups20",
        title="20 Newsgroups by date, word counts",
        task="classification",
        n_samples=11314,
        n_test=7532,
        n_features=130107,
        source="20 Newsgroups, the version sorted by date",
        terms=_RESEARCH,
        classes=tuple(range(20)),
        class_counts=(
            *(480, 584, 591, 590, 578, 593, 585, 594, 598, 597),
            *(600, 595, 591, 594, 593, 599, 546, 564, 465, 377),
        ),
        class_counts_test=(
            *(319, 389, 394, 392, 385, 395, 390, 396, 398, 397),
            *(399, 396, 393, 396, 394, 398, 364, 376, 310, 251),
        ),
        target_names=(
            "alt.atheism",
            "comp.graphics",
            "comp.os.ms-windows.misc",
            "comp.sys.ibm.pc.hardware",
            "comp.sys.mac.hardware",
            "comp.windows.x",
            "misc.forsale",
            "rec.autos",
            "rec.motorcycles",
            "rec.sport.baseball",
            "rec.sport.hockey",
            "sci.crypt",
            "sci.electronics",
            "sci.med",
            "sci.space",
            "soc.religion.christian",
            "talk.politics.guns",
            "talk.politics.mideast",
            "talk.politics.misc",
            "talk.religion.misc",
        ),
        layout="sparse",
        dtype="float32",
        sklearn_name="fetch_20newsgroups_vectorized",
        notes=(
            "Counts of the words of two or more characters of whole messages, headers included, "
            "lower case, over the vocabulary of the training part."
        ),
    ),
    DatasetInfo(
        name="optdigits",
        title="handwritten digits, 8 x 8 counts",
        task="classification",
        n_samples=3823,
        n_test=1797,
        n_features=64,
        source="UCI Optical Recognition of Handwritten Digits, .tra / .tes",
        classes=tuple(range(10)),
        class_counts=(376, 389, 380, 389, 387, 376, 377, 387, 380, 382),
        class_counts_test=(178, 182, 177, 183, 181, 182, 181, 179, 174, 180),
        target_names=_DIGITS,
        feature_names=_pixels(8, 8),
        image_shape=(8, 8),
        openml_id=28,
        notes="The test part is that of :func:`sklearn.datasets.load_digits`.",
    ),
    DatasetInfo(
        name="orl",
        title="ORL faces, 32 x 32",
        task="classification",
        n_samples=400,
        n_features=1024,
        source="AT&T Laboratories Cambridge, the ORL_32x32 version of D. Cai",
        terms=_FACES,
        classes=tuple(range(1, 41)),
        class_counts=(10,) * 40,
        target_names=_numbered("subject ", 40, 1),
        feature_names=_pixels(32, 32),
        image_shape=(32, 32),
        file_only="sklearn.datasets.fetch_olivetti_faces has the same persons in 64 x 64 pixels",
    ),
    DatasetInfo(
        name="pendigits",
        title="digits drawn with a pen, eight points each",
        task="classification",
        n_samples=7494,
        n_test=3498,
        n_features=16,
        source="UCI Pen-Based Recognition of Handwritten Digits, .tra / .tes",
        classes=tuple(range(10)),
        class_counts=(780, 779, 780, 719, 780, 720, 720, 778, 719, 719),
        class_counts_test=(363, 364, 364, 336, 364, 335, 336, 364, 336, 336),
        target_names=_DIGITS,
        feature_names=tuple(f"{axis}{i}" for i in range(1, 9) for axis in "xy"),
        openml_id=32,
    ),
    DatasetInfo(
        name="pie",
        title="CMU PIE faces, 32 x 32, five near-frontal poses",
        task="classification",
        n_samples=11554,
        n_features=1024,
        source="CMU Pose, Illumination and Expression, the 32 x 32 version of D. Cai",
        terms=_FACES,
        classes=tuple(range(1, 69)),
        class_counts=tuple(164 if i == 38 else 170 for i in range(1, 69)),
        target_names=_numbered("subject ", 68, 1),
        feature_names=_pixels(32, 32),
        dtype="float32",
        image_shape=(32, 32),
        extras=(("image_number", "image_number"),),
        file_only="OpenML does not have it",
        notes=(
            "``image_number`` (1 to 170) counts the images of a subject. The file holds 8-bit JPEG "
            "copies: on ten subjects they differ from a loss-free copy by 3.6 grey levels on "
            "average."
        ),
    ),
    DatasetInfo(
        name="puma32h",
        title="dynamics of a robot arm, non-linear, many irrelevant columns",
        task="regression",
        n_samples=8192,
        n_features=32,
        source="DELVE puma32H, as prepared by KEEL",
        terms=_KEEL,
        target_names=("angular acceleration",),
        openml_id=308,
    ),
    DatasetInfo(
        name="rcv1_subset",
        title="Reuters RCV1-v2 news, cosine-normalised log tf-idf",
        task="classification",
        n_samples=12419,
        n_test=11346,
        n_features=47236,
        source="the five rcv1v2 topics subsets of LIBSVM, duplicates removed",
        terms=_RESEARCH,
        classes=(-1, 1),
        class_counts=(6302, 6117),
        class_counts_test=(5629, 5717),
        target_names=("GCAT or MCAT", "CCAT or ECAT"),
        layout="sparse",
        dtype="float32",
        extras=(
            ("roots_train", "roots_train"),
            ("roots_test", "roots_test"),
            ("root_names", "root_names"),
            ("subset_train", "subset_train"),
            ("subset_test", "subset_test"),
        ),
        file_only="sklearn.datasets.fetch_rcv1 is the whole corpus, of which this is a subset",
        notes=(
            "Documents on both sides of the label rule were dropped. ``roots_*`` marks the root "
            "topics named by ``root_names``, ``subset_*`` the subset (1 to 5) of a document."
        ),
    ),
    DatasetInfo(
        name="satimage",
        title="Landsat pixels, 3 x 3 neighbourhoods in four bands",
        task="classification",
        n_samples=4435,
        n_test=2000,
        n_features=36,
        source="UCI Statlog Landsat Satellite, sat.trn / sat.tst",
        classes=(1, 2, 3, 4, 5, 7),
        class_counts=(1072, 479, 961, 415, 470, 1038),
        class_counts_test=(461, 224, 397, 211, 237, 470),
        target_names=(
            "red soil",
            "cotton crop",
            "grey soil",
            "damp grey soil",
            "vegetation stubble",
            "very damp grey soil",
        ),
        feature_names=tuple(f"pixel{p}_band{b}" for p in range(1, 10) for b in range(1, 5)),
        file_only="OpenML 182 has 6430 of the 6435 rows and not the published split",
    ),
    DatasetInfo(
        name="shuttle",
        title="states of the space shuttle's radiator",
        task="classification",
        n_samples=43500,
        n_test=14500,
        n_features=9,
        source="UCI Statlog Shuttle, shuttle.trn / shuttle.tst",
        classes=tuple(range(1, 8)),
        class_counts=(34108, 37, 132, 6748, 2458, 6, 11),
        class_counts_test=(11478, 13, 39, 2155, 809, 4, 2),
        target_names=(
            *("Rad Flow", "Fpv Close", "Fpv Open", "High", "Bypass", "Bpv Close", "Bpv Open"),
        ),
        openml_id=40685,
    ),
    DatasetInfo(
        name="spambase",
        title="word frequencies of e-mails, spam or not",
        task="classification",
        n_samples=3065,
        n_test=1536,
        n_features=57,
        source="UCI Spambase, split by the indicator of The Elements of Statistical Learning",
        classes=(0, 1),
        class_counts=(1847, 1218),
        class_counts_test=(941, 595),
        target_names=("e-mail", "spam"),
        feature_names=(
            *(f"word_freq_{word}" for word in _SPAM_WORDS),
            *(f"char_freq_{char}" for char in ";([!$#"),
            "capital_run_length_average",
            "capital_run_length_longest",
            "capital_run_length_total",
        ),
        extras=(("is_test", "is_test"),),
        file_only="OpenML 44 has the rows but not the train/test indicator of the book",
        notes="``is_test`` (4601 rows) is the indicator in the row order of the original.",
    ),
    DatasetInfo(
        name="vertebral",
        title="biomechanics of the spine",
        task="classification",
        n_samples=310,
        n_features=6,
        source="UCI Vertebral Column, column_3C and column_2C",
        classes=(0, 1, 2),
        class_counts=(60, 150, 100),
        target_names=("DH", "SL", "NO"),
        feature_names=(
            "pelvic_incidence",
            "pelvic_tilt",
            "lumbar_lordosis_angle",
            "sacral_slope",
            "pelvic_radius",
            "degree_spondylolisthesis",
        ),
        extras=(("y2", "y_binary"),),
        file_only="OpenML 1523 numbers the classes without naming them",
        notes=(
            "Disk hernia, spondylolisthesis, normal. ``y_binary`` is 1 for the 210 abnormal rows."
        ),
    ),
    DatasetInfo(
        name="wbc_original",
        title="breast cytology, grades 1 to 10",
        task="classification",
        n_samples=699,
        n_features=9,
        source="UCI Breast Cancer Wisconsin (Original)",
        classes=(0, 1),
        class_counts=(458, 241),
        target_names=("benign", "malignant"),
        feature_names=(
            "clump_thickness",
            "cell_size_uniformity",
            "cell_shape_uniformity",
            "marginal_adhesion",
            "single_epithelial_cell_size",
            "bare_nuclei",
            "bland_chromatin",
            "normal_nucleoli",
            "mitoses",
        ),
        missing=0,
        extras=(("id", "sample_id"),),
        openml_id=15,
        notes=(
            "Sixteen values of bare_nuclei are missing and are returned as NaN. ``sample_id`` "
            "numbers the samples and comes with the file only; some patients occur more than once."
        ),
    ),
    DatasetInfo(
        name="wdbc",
        title="breast masses, diagnostic measures",
        task="classification",
        n_samples=569,
        n_features=30,
        source="UCI Breast Cancer Wisconsin (Diagnostic)",
        classes=(0, 1),
        class_counts=(357, 212),
        target_names=("benign", "malignant"),
        feature_names=(
            *(f"mean {measure}" for measure in _WDBC_MEASURES),
            *(f"{measure} error" for measure in _WDBC_MEASURES),
            *(f"worst {measure}" for measure in _WDBC_MEASURES),
        ),
        sklearn_name="load_breast_cancer",
        notes=(
            "Malignant is class 1, the event to detect; "
            ":func:`sklearn.datasets.load_breast_cancer` numbers the classes the other way."
        ),
    ),
    DatasetInfo(
        name="wine",
        title="chemistry of wines of three cultivars",
        task="classification",
        n_samples=178,
        n_features=13,
        source="UCI Wine",
        classes=(0, 1, 2),
        class_counts=(59, 71, 48),
        target_names=("class_0", "class_1", "class_2"),
        feature_names=(
            "alcohol",
            "malic_acid",
            "ash",
            "alcalinity_of_ash",
            "magnesium",
            "total_phenols",
            "flavanoids",
            "nonflavanoid_phenols",
            "proanthocyanins",
            "color_intensity",
            "hue",
            "od280/od315_of_diluted_wines",
            "proline",
        ),
        sklearn_name="load_wine",
    ),
    DatasetInfo(
        name="yaleb",
        title="Extended Yale B faces, 32 x 32, frontal, strong changes of light",
        task="classification",
        n_samples=2414,
        n_features=1024,
        source="Extended Yale Face Database B, the YaleB_32x32 version of D. Cai",
        terms=_FACES,
        classes=tuple(range(1, 39)),
        class_counts=(64,) * 10 + (60, 59, 60, 63, 62, 63, 63) + (64,) * 21,
        target_names=_numbered("subject ", 38, 1),
        feature_names=_pixels(32, 32),
        image_shape=(32, 32),
        file_only="OpenML does not have it",
    ),
)

REGISTRY: Mapping[str, DatasetInfo] = MappingProxyType({info.name: info for info in _SETS})
