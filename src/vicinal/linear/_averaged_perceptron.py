"""Multi-class averaged perceptron."""

from numbers import Integral

import numpy as np
from sklearn.utils.validation import validate_data

from vicinal._base import (
    atomic_fit,
    class_factors,
    documented,
    draw_seeds,
    encode_labels,
    positive_rows,
    row_blocks,
    saved,
)
from vicinal._base._compat import Interval, StrOptions
from vicinal._kernels.linear._perceptron import fit_perceptron, margin_scale
from vicinal.linear._base import LinearScores


@saved(classes_="c labels", coef_="r p", intercept_="r")
@documented
class AveragedPerceptron(LinearScores):
    r"""Multi-class perceptron whose weights are the mean over all steps of training.

    One weight vector per class, moved only by rows that are classified wrongly. It makes no
    assumption on the distribution of the features, reads sparse rows as they are, and takes a few
    milliseconds an epoch. It needs features of similar scale: put a ``StandardScaler`` (or, for
    sparse data, a ``MaxAbsScaler``) before it.

    Read more in the :doc:`user guide </guide/linear>`.

    Parameters
    ----------
    max_iter : int, default=10
        Number of passes over the data, each in a new random order.
    class_weight : dict or "balanced", default=None
        Factors on the weights of the rows of each class; ``"balanced"`` counts weights.
    random_state : int, RandomState instance or None, default=None
        Draws the orders. An integer gives the same result at each call.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Averaged weights.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Averaged biases.
    mistakes_ : ndarray of shape (max_iter,)
        Mistakes made in each epoch, by the weights of the moment.
    n_iter_ : int
        Epochs run: an epoch without a mistake ends training, because no other would change it.
    margin_scale_ : float
        Standard deviation of the training margins, by which scores are divided before the softmax
        in :meth:`predict_proba`. These probabilities rank well but are not calibrated.

    See Also
    --------
    sklearn.linear_model.SGDClassifier : With ``loss="perceptron", average=True``, one perceptron
        per class against the rest.
    vicinal.linear.WeightedLDA : A linear classifier in closed form.

    Notes
    -----
    With scores :math:`s_c = W_c^\top x + b_c` and the rival
    :math:`q = \arg\max_{c\neq y} s_c`, a row with :math:`s_q \ge s_y` changes

    .. math:: (W_y, b_y) \leftarrow (W_y, b_y) + w_i (x, 1),\qquad
       (W_q, b_q) \leftarrow (W_q, b_q) - w_i (x, 1),

    the multi-class rule of [2]_; the mean over all steps is that of [1]_, section 2.2 (there over
    the surviving perceptrons, weighted by how long they survive, which is the same mean). It is
    kept lazily as :math:`W - A/(t+1)` with :math:`A = \sum_t t\,\Delta W_t`. Training is done in
    single precision.

    ``sample_weight`` scales the step. Rows of weight 0 are left out before the orders are drawn, so
    that they change nothing at all; a row of weight 2 equals the row twice only on average, because
    the path depends on the order.

    References
    ----------
    .. [1] Y. Freund, R. Schapire, "Large margin classification using the perceptron algorithm",
       Machine Learning 37, 1999. :doi:`10.1023/A:1007662407062`
    .. [2] M. Collins, "Discriminative training methods for hidden Markov models: theory and
       experiments with perceptron algorithms", EMNLP, 2002. :doi:`10.3115/1118693.1118694`

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from vicinal.linear import AveragedPerceptron
    >>> X, y = load_digits(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0)
    >>> model = AveragedPerceptron(random_state=0).fit(X_train, y_train)
    >>> model.score(X_test, y_test) > 0.93
    True
    """

    _parameter_constraints = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "random_state": ["random_state"],
    }
    _accept_sparse = "csr"

    def __init__(self, max_iter=10, *, class_weight=None, random_state=None):
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.random_state = random_state

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Train from zero weights.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,)
            Labels of at least two classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Factors on the steps; 0 equals the row removed.
        """
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            accept_large_sparse=False,
            dtype=[np.float64, np.float32],
        )
        weights, X, y = positive_rows(sample_weight, X, y, compact=True)
        self.classes_, codes = encode_labels(y)
        weights = self._with_class_weight(codes, weights)
        fitted = fit_perceptron(
            X,
            codes,
            weights,
            len(self.classes_),
            seed=draw_seeds(self.random_state, 1)[0],
            n_epochs=self.max_iter,
        )
        self.mistakes_ = fitted.mistakes
        self.n_iter_ = int(min(np.count_nonzero(fitted.mistakes) + 1, self.max_iter))
        self.margin_scale_ = margin_scale(_margins(X, codes, fitted), weights)
        self._store_scores(fitted.coef, fitted.intercept, X.dtype)
        return self

    @property
    def _score_scale(self):
        return self.coef_.dtype.type(self.margin_scale_)

    def _with_class_weight(self, codes, weights):
        if self.class_weight is None:
            return weights
        weights = np.ones(len(codes)) if weights is None else weights
        return weights * class_factors(self.class_weight, self.classes_, codes, weights)[codes]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _margins(X, codes, fitted):
    """Return the score of the own class less the best of the others, for each training row."""
    n_classes = len(fitted.intercept)
    margins = np.empty(X.shape[0])
    for span in row_blocks(X.shape[0], 16 * n_classes):
        scores = X[span] @ fitted.coef.T + fitted.intercept
        index = np.arange(len(scores))
        own = scores[index, codes[span]]
        scores[index, codes[span]] = -np.inf
        margins[span] = own - scores.max(axis=1)
    return margins
