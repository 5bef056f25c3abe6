"""Which of scikit-learn's checks and of our own contracts does every estimator keep?"""

import sys
import warnings
from collections import Counter

from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from _harness import ROOT, ResultsPage

sys.path.insert(0, str(ROOT))

from tests.common.contracts import CONTRACTS, Inapplicable
from tests.common.exceptions import contract_exceptions, expected_failures
from tests.common.instances import all_instances


def scikit_learn_counts(estimator):
    """Statuses of scikit-learn's checks, and the names of unexplained failures."""
    results = check_estimator(
        estimator, expected_failed_checks=expected_failures(estimator), on_fail=None, on_skip=None
    )
    failed = [r["check_name"] for r in results if r["status"] == "failed"]
    return Counter(r["status"] for r in results), failed


def contract_counts(estimator):
    """Statuses of our contracts, and the names of unexplained failures."""
    counts, failed = Counter(), []
    for contract in CONTRACTS:
        try:
            contract(clone(estimator))
            counts["passed"] += 1
        except Inapplicable:
            counts["skipped"] += 1
        except BaseException:
            if contract.__name__ in contract_exceptions(estimator):
                counts["xfail"] += 1
            else:
                failed.append(contract.__name__)
    return counts, failed


def kept(estimator):
    """Return how often an estimator passed, was not asked or was excepted, and what failed."""
    sklearn_counts, sklearn_failed = scikit_learn_counts(clone(estimator))
    our_counts, our_failed = contract_counts(estimator)
    return {
        "counts": [
            counts[status]
            for counts in (sklearn_counts, our_counts)
            for status in ("passed", "skipped", "xfail")
        ],
        "failed": [*sklearn_failed, *our_failed],
        "reasons": [
            [check, reason]
            for registry in (expected_failures(estimator), contract_exceptions(estimator))
            for check, reason in registry.items()
        ],
    }


def main():
    warnings.simplefilter("ignore")
    page = ResultsPage(
        "checks",
        "Estimators and checks",
        "Which of scikit-learn's common checks and of our own contracts does every public "
        "estimator keep? An exception is legitimate only with a written reason; `skipped` means "
        "that the check says nothing about that kind of estimator.",
    )
    rows, reasons, unexplained = [], set(), []
    for estimator in all_instances():
        name, shown = type(estimator).__name__, " ".join(str(estimator).split())
        found = page.case((shown,), lambda e=estimator: kept(e))
        rows.append([f"`{shown}`", *found["counts"], len(found["failed"])])
        reasons |= {(name, f"`{check}`", reason) for check, reason in found["reasons"]}
        unexplained += [f"- {name}: `{check}`" for check in found["failed"]]
    page.table(
        ["estimator", "scikit-learn: passed", "skipped", "excepted", "ours: passed", "skipped",
         "excepted", "unexplained"],
        rows,
    )  # fmt: skip
    page.text("## Reasons")
    page.table(["estimator", "check", "reason"], sorted(reasons))
    page.text("\n".join([f"Unexplained failures: {len(unexplained)}.", *unexplained]))
    page.write()


if __name__ == "__main__":
    main()
