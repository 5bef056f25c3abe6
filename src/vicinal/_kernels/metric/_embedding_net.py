r"""A small net that maps rows to coordinates, with its derivatives written down.

For the scores x of one row,

    e_k = relu(W_k [cos(2 pi c_k x_k), sin(2 pi c_k x_k), x_k] + b_k)     one per column k
    z   = A [e_1 ... e_d]
    phi = bn(z + B2 relu(B1 bn(z) + b1))

Without periodic features z = A x; constants before a normalisation would be taken away by it. Every
array has the nets of an ensemble as its first axis, so that one batched product serves all of them.
The functions are written once over the array namespace; parameters, gradients and moments of a net
lie in one row each, of which the named parameters are views.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from vicinal._base import namespace

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
    """Draw the parameters and the statistics of one net: uniform in one over root of the inputs."""
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
