"""The reasons of one prediction as one HTML file that needs no network."""

from typing import Any

from vicinal.inspection import Explanation
from vicinal.report._page import Page, render
from vicinal.report._reasons import explanation_part


class ExplanationReport(Page):
    """A page about one prediction: the answer, the row, and the reasons with the same numbers.

    Parameters
    ----------
    explanation : Explanation
        What :func:`vicinal.inspection.explain` returned.
    title : str, default="Explanation"
        Heading of the page.

    See Also
    --------
    ModelReport : Reasons of many rows beside how good the model is.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from vicinal import SpacePartitioningClassifier
    >>> from vicinal.inspection import explain
    >>> from vicinal.report import ExplanationReport
    >>> X, y = load_wine(return_X_y=True)
    >>> model = SpacePartitioningClassifier(n_regions=2, n_init=2, random_state=0).fit(X, y)
    >>> report = ExplanationReport(explain(model, X[0]), "A wine")
    >>> [section["title"] for section in report.as_dict()["part"]["sections"]]
    ['Region', 'Coefficients', 'Support']
    """

    template = "explanation.html"

    def __init__(self, explanation: Explanation, title: str = "Explanation") -> None:
        self.explanation = explanation
        self.title = title

    def as_dict(self) -> dict[str, Any]:
        """Return everything the page shows as plain values.

        Returns
        -------
        dict
            ``title``, and ``part``: answer, values of the row, and reasons.
        """
        return {"title": self.title, "part": explanation_part(self.explanation, None, None)}

    def article(self) -> str:
        """Return the answer and the reasons without a page around them.

        Returns
        -------
        str
            HTML for a page of the same style.
        """
        return render(self.as_dict(), "article.html")
