r"""A small net that maps rows to coordinates in which they vote for one another, and its training.

For the scores x of one row,

    e_k = relu(W_k [cos(2 pi c_k x_k), sin(2 pi c_k x_k), x_k] + b_k)     one per column k
    z   = A [e_1 ... e_d]
    phi = bn(z + B2 relu(B1 bn(z) + b1))

Without periodic features z = A x; constants before a normalisation would be taken away by it. Every
array has the nets of an ensemble as its first axis, so that one batched product serves all of them.
The functions are written once over the array namespace; parameters, gradients and moments of a net
lie in one row each, of which the named parameters are views.

Rows vote by their distance: s = softmax_j(log w_j - |q - v_j|), p = sum_j s_j y_j. The loss of one
query is -log(p_y + 1e-7) for classes (y one-hot) or (p - y)^2 for regression. With r = dloss/dp the
derivative with respect to a distance D_j is -s_j (r . y_j - r . p), and through dD/dq = (q - v) / D
it reaches both ends. At distance zero there is no direction; zero is taken.

Rows of an epoch come in a random order; a step takes a window of it, whose first rows are the batch
and all of whose rows vote. The order is generated on the host, so that it is the same for every
array library.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import device

from vicinal._base import namespace, take_rows

_FAR = 1e30
_FLOOR = 1e-7


def distances(Q: Any, V: Any) -> Any:
    """Return |q - v| (n_nets, q, n); zero where it is no more than rounding."""
    xp = namespace(Q)
    norms_q, norms_v = xp.sum(Q * Q, axis=2), xp.sum(V * V, axis=2)
    D = xp.matmul(-2.0 * Q, xp.permute_dims(V, (0, 2, 1)))
    D += norms_q[:, :, None]
    D += norms_v[:, None, :]
    floor = 8.0 * float(xp.finfo(Q.dtype).eps)
    D *= D > floor * norms_q[:, :, None]
    return xp.sqrt(D)


def shares(D: Any, log_weights: Any, *, skip_own: bool = False) -> Any:
    """Return softmax(log w - D) over the voters, the last axis.

    With ``skip_own`` voter i is query i for the first voters, and is left out.
    """
    xp = namespace(D)
    S = log_weights[:, None, :] - D
    if skip_own:
        q = D.shape[1]
        S[:, :, :q] -= _FAR * xp.eye(q, dtype=D.dtype, device=device(D))
    S -= xp.max(S, axis=2, keepdims=True)
    S = xp.exp(S)
    S /= xp.sum(S, axis=2, keepdims=True)
    return S


def loss_of_votes(p: Any, Y: Any, weights: Any, *, classes: bool) -> tuple[Any, Any]:
    """Return the weighted mean loss of each net and its derivative by the predictions p."""
    xp = namespace(p)
    total = xp.sum(weights, axis=1)
    share = (weights / total[:, None])[:, :, None]
    if classes:
        right = xp.sum(p * Y, axis=2, keepdims=True) + _FLOOR
        return -xp.sum(share * xp.log(right), axis=(1, 2)), -share * Y / right
    residual = p - Y
    loss = xp.sum(share * residual * residual, axis=(1, 2))
    return loss, 2.0 * share * residual


def vote_gradient(Q: Any, V: Any, Y: Any, S: Any, D: Any, p: Any, d_p: Any) -> tuple[Any, Any]:
    """Return the derivatives of the loss by queries and by voters, from dloss/dp (n_nets, q, c)."""
    xp = namespace(Q)
    # s_j (r . y_j - r . p) / D_j; where D_j is zero, so is the difference that it multiplies.
    C = xp.matmul(d_p, xp.permute_dims(Y, (0, 2, 1)))
    C -= xp.sum(d_p * p, axis=2, keepdims=True)
    C *= S
    C /= D + (D == 0.0)
    d_q = xp.matmul(C, V)
    d_q -= xp.sum(C, axis=2)[:, :, None] * Q
    d_v = xp.matmul(xp.permute_dims(C, (0, 2, 1)), Q)
    d_v -= xp.sum(C, axis=1)[:, :, None] * V
    return d_q, d_v


EPSILON = 1e-5  # of batch normalisation
_MOMENTUM = 0.1  # of its running statistics


@dataclass(frozen=True)
class NetShape:
    """Sizes of a net: columns, frequencies (0 for none), width per column, hidden, output."""

    n_features: int
    n_frequencies: int
    n_per_feature: int
    n_hidden: int
    n_components: int

    def parameters(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each named parameter, in the order in which they are stored."""
        d, f, e, m = self.n_features, self.n_frequencies, self.n_per_feature, self.n_components
        shapes: dict[str, tuple[int, ...]] = {}
        if f:
            shapes.update(c=(d, 1, f), W=(d, 2 * f + 1, e), b=(d, 1, e))
        shapes.update(
            A=(d * e if f else d, m),
            scale1=(1, m), shift1=(1, m),
            B1=(m, self.n_hidden), b1=(1, self.n_hidden),
            B2=(self.n_hidden, m),
            scale2=(1, m), shift2=(1, m),
        )  # fmt: skip
        return shapes

    def statistics(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the running means and variances."""
        return dict.fromkeys(("mean1", "var1", "mean2", "var2"), (1, self.n_components))


def views(flat: Any, shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    """Return named views of ``flat`` (n_nets, total), each of shape (n_nets, *shape)."""
    found, start = {}, 0
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        found[name] = flat[:, start : start + size].reshape((flat.shape[0], *shape))
        start += size
    return found


def count(shapes: dict[str, tuple[int, ...]]) -> int:
    """Return how many numbers the shapes hold."""
    return sum(int(np.prod(shape)) for shape in shapes.values())


def initial_net(
    shape: NetShape, frequency_scale: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return random parameters and the statistics of one network."""
    shapes = shape.parameters()
    flat = np.zeros((1, count(shapes)))
    named = views(flat, shapes)
    for name in ("W", "b", "A", "B1", "b1", "B2"):
        if name in named:
            inputs = {"b": "W", "b1": "B1"}.get(name, name)
            bound = 1.0 / np.sqrt(shapes[inputs][-2])
            named[name][...] = rng.uniform(-bound, bound, size=named[name].shape)
    if "c" in named:
        named["c"][...] = rng.normal(scale=frequency_scale, size=named["c"].shape)
    named["scale1"][...] = named["scale2"][...] = 1.0
    statistics = np.zeros((1, count(shape.statistics())))
    for name, view in views(statistics, shape.statistics()).items():
        view[...] = 1.0 if name.startswith("var") else 0.0
    return flat, statistics


def forward(
    P: dict[str, Any], S: dict[str, Any], X: Any, *, training: bool
) -> tuple[Any, dict[str, Any]]:
    """Map rows X (n_nets, n, d) to phi (n_nets, n, n_components); also what `backward` needs.

    While training, batches are normalised by their own statistics, which also move the running
    ones in S.
    """
    xp = namespace(X)
    cache: dict[str, Any] = {}
    # Inputs lie one after another, (nets, inputs, rows): what is done to some is in one piece.
    inputs = _T(X)
    if "c" in P:
        E = xp.matmul(_T(P["W"]), periodic(inputs, P["c"], cache))
        E += _T(P["b"])
        inputs = xp.reshape(_relu(E), (X.shape[0], -1, X.shape[1]))
    z = xp.matmul(_T(inputs), P["A"])
    u = _normalize(z, "1", P, S, cache, training)
    h = xp.matmul(u, P["B1"])
    h += P["b1"]
    h = _relu(h)
    v = xp.matmul(h, P["B2"])
    v += z
    phi = _normalize(v, "2", P, S, cache, training)
    cache.update(inputs=inputs, u=u, h=h)
    return phi, cache


def backward(
    P: dict[str, Any],
    cache: dict[str, Any],
    d_phi: Any,
    G: dict[str, Any] | None,
    *,
    training: bool,
) -> Any:
    """Write the gradients of all parameters into G; with ``G=None`` return that of the rows X."""
    xp = namespace(d_phi)
    d_v = _normalize_back(d_phi, "2", P, G, cache, training)
    inputs, u, h = cache["inputs"], cache["u"], cache["h"]
    d_h = xp.matmul(d_v, _T(P["B2"]))
    d_h *= h > 0
    d_u = xp.matmul(d_h, _T(P["B1"]))
    d_z = _normalize_back(d_u, "1", P, G, cache, training)
    d_z += d_v
    if G is not None:
        G["B2"][...] = xp.matmul(_T(h), d_v)
        G["B1"][...] = xp.matmul(_T(u), d_h)
        G["b1"][...] = xp.sum(d_h, axis=1, keepdims=True)
        G["A"][...] = xp.matmul(inputs, d_z)
        if "c" not in P:
            return None
    d_inputs = xp.matmul(P["A"], _T(d_z))
    if "c" not in P:
        return _T(d_inputs)
    d_inputs *= inputs > 0
    n_nets, d, _, width = P["W"].shape
    d_E = xp.reshape(d_inputs, (n_nets, d, width, -1))
    if G is not None:
        G["W"][...] = xp.matmul(cache["features"], _T(d_E))
        G["b"][...] = _T(xp.sum(d_E, axis=3, keepdims=True))
    d_features = xp.matmul(P["W"], d_E)
    return periodic_back(cache["features"], P["c"], d_features, G)


# --- periodic features ----------------------------------------------------------------------------


def periodic(columns: Any, c: Any, cache: dict[str, Any]) -> Any:
    """Return cos(2 pi c x), sin(2 pi c x) and x of columns x (n_nets, d, n), along axis 2."""
    xp = namespace(columns)
    x = columns[:, :, None, :]
    phase = _T((2.0 * np.pi) * c) * x
    cache["features"] = xp.concat([xp.cos(phase), xp.sin(phase), x], axis=2)
    return cache["features"]


def periodic_back(features: Any, c: Any, d_features: Any, G: dict[str, Any] | None) -> Any:
    """Write the gradient of the frequencies, or return that of the rows."""
    xp = namespace(d_features)
    f = c.shape[-1]
    cos, sin, x = features[:, :, :f], features[:, :, f : 2 * f], features[:, :, 2 * f :]
    d_phase = d_features[:, :, f : 2 * f] * cos
    d_phase -= d_features[:, :, :f] * sin
    if G is not None:
        G["c"][...] = (2.0 * np.pi) * _T(xp.matmul(d_phase, _T(x)))
        return None
    d_x = (2.0 * np.pi) * xp.matmul(c, d_phase) + d_features[:, :, 2 * f :]
    return _T(d_x[:, :, 0])


# --- batch normalisation --------------------------------------------------------------------------


def _normalize(x, layer, P, S, cache, training):
    xp = namespace(x)
    if training:
        mean = xp.mean(x, axis=1, keepdims=True)
        unit = x - mean
        variance = xp.mean(unit * unit, axis=1, keepdims=True)
        S["mean" + layer][...] += _MOMENTUM * (mean - S["mean" + layer])
        S["var" + layer][...] += _MOMENTUM * (variance - S["var" + layer])
    else:
        unit, variance = x - S["mean" + layer], S["var" + layer]
    inverse = 1.0 / xp.sqrt(variance + EPSILON)
    unit *= inverse
    cache["unit" + layer], cache["inverse" + layer] = unit, inverse
    out = unit * P["scale" + layer]
    out += P["shift" + layer]
    return out


def _normalize_back(d_out, layer, P, G, cache, training):
    xp = namespace(d_out)
    unit, factor = cache["unit" + layer], P["scale" + layer] * cache["inverse" + layer]
    if G is not None or training:
        along = xp.sum(d_out * unit, axis=1, keepdims=True)
        total = xp.sum(d_out, axis=1, keepdims=True)
    if G is not None:
        G["scale" + layer][...] = along
        G["shift" + layer][...] = total
    if not training:
        return d_out * factor
    n = d_out.shape[1]
    d_x = unit * (along / -n)
    d_x += d_out
    d_x -= total / n
    d_x *= factor
    return d_x


# --- small things ---------------------------------------------------------------------------------


def _T(x):
    return namespace(x).permute_dims(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def _relu(x):
    x *= x > 0
    return x


def adamw_step(
    flat: Any, gradient: Any, first: Any, second: Any, rates: Any, *, decay: float
) -> None:
    """Move the parameters (n_nets, total) in place by one step of AdamW.

    ``rates`` (n_nets, 3) holds the rate, and one less the powers of both betas at this step.
    """
    xp = namespace(flat)
    rate, correction1, correction2 = rates[:, :1], rates[:, 1:2], rates[:, 2:]
    first *= 0.9
    first += 0.1 * gradient
    second *= 0.999
    second += 0.001 * gradient * gradient
    flat *= 1.0 - rate * decay
    flat -= (rate / correction1) * first / (xp.sqrt(second / correction2) + 1e-8)


@dataclass
class Nets:
    """Parameters and statistics of several nets of one shape, a row each."""

    shape: NetShape
    flat: Any  # (n_nets, n_parameters)
    statistics: Any  # (n_nets, n_statistics)

    def __post_init__(self) -> None:
        self.P = views(self.flat, self.shape.parameters())
        self.S = views(self.statistics, self.shape.statistics())

    def embed(self, X: Any) -> Any:
        """Map rows X (n, d) by every net: (n_nets, n, n_components)."""
        xp = namespace(X)
        rows = xp.broadcast_to(X[None], (self.flat.shape[0], *X.shape))
        return forward(self.P, self.S, rows, training=False)[0]


def training_step(
    nets: Nets,
    moments: tuple[Any, Any, Any],
    data: tuple,
    window: Any,
    rates: Any,
    *,
    batch_size: int,
    classes: bool,
    decay: float,
) -> Any:
    """Take one step of all nets and return the loss of each before it.

    Rows X (n, d), values Y (n, c) and weights (n,) of ``data`` are shared; each net has its own
    window of rows (n_nets, n_window), the first ``batch_size`` of which are predicted. ``moments``
    are gradient and both moments of AdamW, of the shape of the parameters.
    """
    rows, values, w = (take_rows(part, window) for part in data)
    xp = namespace(rows)
    phi, cache = forward(nets.P, nets.S, rows, training=True)
    Q, targets = phi[:, :batch_size], values[:, :batch_size]
    D = distances(Q, phi)
    S = shares(D, xp.log(w), skip_own=True)
    p = xp.matmul(S, values)
    loss, d_p = loss_of_votes(p, targets, w[:, :batch_size], classes=classes)
    d_q, d_phi = vote_gradient(Q, phi, values, S, D, p, d_p)
    d_phi[:, :batch_size] += d_q
    G = views(moments[0], nets.shape.parameters())
    backward(nets.P, cache, d_phi, G, training=True)
    adamw_step(nets.flat, *moments, rates, decay=decay)
    return loss


def held_out_loss(nets: Nets, data: tuple, queries: Any, voters: Any, *, classes: bool) -> Any:
    """Return the loss of each net at its held-out rows, by its voters: both (n_nets, some)."""
    X, Y, weights = data
    xp = namespace(X)
    both = xp.concat([queries, voters], axis=1)
    phi, _ = forward(nets.P, nets.S, take_rows(X, both), training=False)
    k = queries.shape[1]
    D = distances(phi[:, :k], phi[:, k:])
    predictions = xp.matmul(shares(D, xp.log(take_rows(weights, voters))), take_rows(Y, voters))
    targets, w = take_rows(Y, queries), take_rows(weights, queries)
    return loss_of_votes(predictions, targets, w, classes=classes)[0]


def epoch_windows(
    rng: np.random.Generator, rows: np.ndarray, batch_size: int, n_window: int, n_steps: int
) -> np.ndarray:
    """Return rows of (n_steps, n_window): stretches of one random order, closed to a ring."""
    order = rng.permutation(rows)
    starts = batch_size * np.arange(n_steps)
    return order[(starts[:, None] + np.arange(n_window)) % len(order)]
