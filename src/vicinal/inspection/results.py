"""Classes of what `check`, `compare` and `explain` return; only these functions construct them."""

from vicinal.inspection.checks._findings import TableCheck as TableCheck
from vicinal.inspection.compare._comparison import Comparison as Comparison
from vicinal.inspection.explain._explanation import FOLDED as FOLDED
from vicinal.inspection.explain._explanation import Explanation as Explanation
from vicinal.inspection.explain._explanations import Explanations as Explanations
