"""Distributions beside PyTorch's: log-probabilities, moments, divergences, gradients, draws."""

import numpy as np
import pytest

import pd_core as pd
from pd_core import distributions as d
from pd_core.ops.distributions.gamma_slope import log_gamma_slope, with_slope

torch = pytest.importorskip("torch")
TD = torch.distributions

A = np.array([[0.3, -1.2, 2.0]])
B = np.array([[0.7], [1.9]])
P = np.array([0.2, 0.5, 0.9])
MIXED = pd.Variable([2]), pd.Variable([2], dtype="float64")
Z = np.array([[0.1, -2.0, 1.0, 0.4], [3.0, 0.0, 0.5, -1.0]])

# name: (ours, PyTorch's, parameters, values)
ROWS = {
    "normal": (d.Normal, TD.Normal, {"loc": A, "scale": B}, np.linspace(-2, 3, 6).reshape(2, 3)),
    "log_normal": (d.LogNormal, TD.LogNormal, {"loc": A, "scale": B}, np.array([0.1, 1, 7])),
    "uniform": (d.Uniform, TD.Uniform, {"low": A, "high": A + B}, A + 0.5),
    "exponential": (d.Exponential, TD.Exponential, {"rate": B}, np.array([0.1, 1, 7])),
    "laplace": (d.Laplace, TD.Laplace, {"loc": A, "scale": B}, np.array([-3, 0.2, 7])),
    "bernoulli": (d.Bernoulli, TD.Bernoulli, {"probs": P}, np.array([[0.0], [1.0]])),
    "bernoulli_logits": (d.Bernoulli, TD.Bernoulli, {"logits": A}, np.array([[0.0], [1.0]])),
    "half_normal": (d.HalfNormal, TD.HalfNormal, {"scale": B}, np.array([0.1, 1, 7])),
    "cauchy": (d.Cauchy, TD.Cauchy, {"loc": A, "scale": B}, np.array([-3, 0.2, 7])),
    "gumbel": (d.Gumbel, TD.Gumbel, {"loc": A, "scale": B}, np.array([-1, 0.2, 7])),
    "gamma": (d.Gamma, TD.Gamma, {"concentration": B, "rate": np.exp(A)}, np.array([0.1, 1, 7])),
    "beta": (
        d.Beta,
        TD.Beta,
        {"concentration1": B, "concentration0": np.exp(A)},
        np.array([0.1, 0.5, 0.99]),
    ),
    "dirichlet": (
        d.Dirichlet,
        TD.Dirichlet,
        {"concentration": np.exp(Z)},
        np.array([0.1, 0.2, 0.3, 0.4]),
    ),
    "student_t": (
        d.StudentT,
        TD.StudentT,
        {"df": np.exp(A) + 4.0, "loc": A, "scale": B},
        np.array([-3, 0.2, 7]),
    ),
    "poisson": (d.Poisson, TD.Poisson, {"rate": np.exp(A) * 4.0}, np.array([0.0, 3.0, 40.0])),
    "geometric": (d.Geometric, TD.Geometric, {"probs": P}, np.array([[0.0], [3.0]])),
    "geometric_logits": (d.Geometric, TD.Geometric, {"logits": A}, np.array([[0.0], [3.0]])),
    "one_hot": (d.OneHotCategorical, TD.OneHotCategorical, {"logits": Z}, np.eye(4)[[3, 0]]),
    "categorical": (d.Categorical, TD.Categorical, {"probs": np.exp(Z)}, np.array([[3], [0]])),
    "categorical_logits": (d.Categorical, TD.Categorical, {"logits": Z}, np.array([2, 0])),
}


def build(name, dims):
    ours, theirs, arrays, value = ROWS[name]
    v = {
        k: pd.Variable(
            [None if dims == "unknown" and a.shape[0] > 1 else len(a), *a.shape[1:]],
            dtype="float64",
        )
        for k, a in arrays.items()
    }
    t = {k: torch.tensor(a, requires_grad=True) for k, a in arrays.items()}
    feeds = {v[k]: a for k, a in arrays.items()}
    return ours(**v), theirs(**t, validate_args=False), v, t, feeds, value


def sized(shape, p):
    """Sizes, beside what is known of them where an input is open."""
    return zip(shape, p.batch_shape, strict=True)


def compare(y, expected, v, t, feeds):
    """Values, and gradients of the sum in all parameters."""
    slopes = pd.gradients(pd.reduce_sum(y), list(v.values()))
    total = expected.sum()
    if total.requires_grad:
        theirs = torch.autograd.grad(total, list(t.values()), allow_unused=True, retain_graph=True)
    else:
        theirs = [None] * len(slopes)
    value = pd.eval(y, feeds)
    found = [None if g is None else pd.eval(g, feeds) for g in slopes]
    np.testing.assert_allclose(value, expected.detach(), rtol=1e-6, atol=1e-7)
    for (name, x), g, other in zip(v.items(), found, theirs, strict=True):
        expected_slope = np.zeros(feeds[x].shape) if other is None else other.numpy()
        g = np.zeros(feeds[x].shape) if g is None else g
        np.testing.assert_allclose(g, expected_slope, rtol=1e-5, atol=1e-7, err_msg=name)


@pytest.mark.parametrize("dims", ["known", "unknown"])
@pytest.mark.parametrize("name", ROWS)
def test_log_probabilities_moments_and_entropy(name, dims):
    p, q, v, t, feeds, value = build(name, dims)
    compare(p.log_prob(value), q.log_prob(torch.tensor(value)), v, t, feeds)
    if name == "poisson":
        with pytest.raises(pd.GraphError, match="Poisson has no entropy"):
            p.entropy()
    else:
        compare(p.entropy(), q.entropy(), v, t, feeds)
    assert [*p.batch_shape] == [n if dims == "known" else m for n, m in sized(q.batch_shape, p)]
    assert p.event_shape == tuple(q.event_shape)
    if "categorical" in name or name == "cauchy":
        for moment in ("mean", "variance"):
            with pytest.raises(pd.GraphError, match=r"Categorical has no|Cauchy has no"):
                getattr(p, moment)
    else:
        for moment in ("mean", "variance", "stddev"):
            compare(getattr(p, moment), getattr(q, moment), v, t, feeds)


HAVE_CDF = (
    "normal",
    "log_normal",
    "half_normal",
    "uniform",
    "exponential",
    "laplace",
    "cauchy",
    "gumbel",
)


@pytest.mark.parametrize("name", HAVE_CDF)
def test_cumulative_probabilities_and_quantiles(name):
    p, q, v, t, feeds, value = build(name, "known")
    compare(p.cdf(value), q.cdf(torch.tensor(value)), v, t, feeds)
    share = np.array([0.01, 0.4, 0.99])
    compare(p.icdf(share), q.icdf(torch.tensor(share)), v, t, feeds)
    assert (pd.eval(p.cdf(p.icdf(share)), feeds) - share < 1e-6).all()
    if name in ("log_normal", "half_normal", "exponential"):
        assert (pd.eval(p.cdf(-1.0), feeds) == 0.0).all()


@pytest.mark.parametrize("name", [name for name in ROWS if name != "student_t"])
def test_divergences(name):
    p, q, _, _, feeds, _ = build(name, "known")
    p2, _, v2, t2, _, _ = build(name, "known")
    other = {k: a + 0.05 if k != "low" else a - 0.3 for k, a in ROWS[name][2].items()}
    feeds2 = {v2[k]: a for k, a in other.items()}
    with torch.no_grad():
        for k, a in other.items():
            t2[k].copy_(torch.tensor(a))
    q2 = ROWS[name][1](**t2, validate_args=False)
    y = d.kl_divergence(p, p2)
    expected = TD.kl_divergence(q, q2)
    np.testing.assert_allclose(pd.eval(y, feeds | feeds2), expected.detach(), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("sizes", [(), (20000,)], ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_draws_have_the_shape_and_the_moments(name, sizes):
    for dims in ("known", "unknown"):
        p, q, _, _, feeds, _ = build(name, dims)
        y = pd.eval(p.sample(sizes), feeds)
        assert y.shape == tuple(q.sample(sizes).shape)
        if name == "cauchy":
            if sizes:
                np.testing.assert_allclose(np.median(y, 0), q.loc.detach(), atol=0.1)
        elif sizes and "categorical" in name:
            for k in range(4):
                np.testing.assert_allclose((y == k).mean(0), q.probs[:, k].detach(), atol=0.02)
        elif sizes:
            error = 6 * q.stddev.detach().numpy() / np.sqrt(sizes[0])
            assert (abs(y.mean(0) - q.mean.detach().numpy()) < error + 1e-7).all()
            if name not in (
                "log_normal",
                "student_t",
            ):  # whose fourth moment is too large for this many draws
                np.testing.assert_allclose(y.var(0), q.variance.detach(), rtol=0.1, atol=0.005)


BY_GAMMA = ("gamma", "beta", "dirichlet", "student_t")


@pytest.mark.parametrize("name", [name for name in HAVE_CDF if name != "cauchy"] + [*BY_GAMMA])
def test_gradients_reach_parameters_through_draws(name):
    """The slope of the mean of draws is that of the mean."""
    p, _, v, _, feeds, _ = build(name, "known")
    count = 2000 if name in BY_GAMMA else 20000
    drawn = pd.gradients(pd.reduce_sum(pd.reduce_mean(p.rsample((count,)), 0)), list(v.values()))
    exact = pd.gradients(pd.reduce_sum(p.mean), list(v.values()))
    for g, e in zip(drawn, exact, strict=True):
        expected = 0.0 if e is None else pd.eval(e, feeds)
        tolerance = 0.6 if name == "log_normal" else 0.15 if name in BY_GAMMA else 0.05
        np.testing.assert_allclose(pd.eval(g, feeds), expected, rtol=tolerance, atol=0.06)
    assert pd.gradients(pd.reduce_sum(p.sample((3,))), list(v.values()))[0] is None


def test_gamma_draws_of_any_concentration_have_its_distribution():
    """The share of draws below quantiles, also where they underflow in float32."""
    concentration = np.array([0.02, 0.3, 1.0, 2.5, 40.0])
    drawn = pd.eval(d.Gamma(concentration, 1.0).sample([20000]))
    for a, column in zip(concentration, drawn.T, strict=True):
        points = np.quantile(np.random.default_rng(0).gamma(a, size=200000), [0.2, 0.5, 0.9])
        np.testing.assert_allclose(
            [(column <= x).mean() for x in points], [0.2, 0.5, 0.9], atol=0.015
        )
    small = pd.eval(d.Beta(0.01, 0.01).sample([20000]))
    np.testing.assert_allclose([small.mean(), small.var()], [0.5, 0.25 / 1.02], atol=0.02)


def test_slopes_of_gamma_draws_are_those_of_their_quantiles():
    """dx/da = -(dP/da) / p(a, x), by differences of the distribution function of PyTorch."""
    a = np.repeat([0.02, 0.3, 1.0, 2.5, 10.0, 100.0], 5)
    shares = np.tile([1e-3, 0.1, 0.5, 0.9, 0.999], 6)
    draws = np.random.default_rng(0).gamma(np.repeat(a[:, None], 4000, 1))
    x = np.array([np.quantile(row, p) for row, p in zip(draws, shares, strict=True)]) + 1e-12
    t, h = (torch.tensor(v) for v in (x, 1e-4 * a))
    points = [torch.tensor(a) + k * h for k in (-2, -1, 1, 2)]
    below = [torch.special.gammainc(point, t) for point in points]
    slope = (below[0] - 8 * below[1] + 8 * below[2] - below[3]) / (12 * h)
    wanted = -slope / TD.Gamma(torch.tensor(a), 1.0).log_prob(t).exp() / t
    for dtype, rtol in (("float32", 3e-5), ("float64", 2e-6)):
        v = pd.Variable([len(a)], dtype=dtype)
        y = with_slope(pd.constant(np.log(x), dtype), v)
        (first,) = pd.gradients(pd.reduce_sum(y), [v])
        (second,) = pd.gradients(pd.reduce_sum(first), [v])
        found, curved = pd.eval([first, second], {v: a})
        np.testing.assert_allclose(found, wanted, rtol=rtol)
        if dtype == "float64":  # along the path of a draw, which its slope follows
            low, high = (
                pd.eval(
                    log_gamma_slope(
                        pd.constant(a + s * 1e-4 * a, dtype),
                        pd.constant(np.log(x) + s * 1e-4 * a * found, dtype),
                    )
                )
                for s in (-1, 1)
            )
            np.testing.assert_allclose(curved, (high - low) / (2e-4 * a), rtol=2e-3, atol=1e-6)


def test_poisson_draws_of_any_rate_have_its_distribution():
    rate = np.array([0.0, 0.3, 3.0, 9.9, 10.0, 12.0, 50.0, 1e3, 1e5])
    drawn = pd.eval(d.Poisson(rate).sample([20000]))
    assert (drawn[:, 0] == 0).all() and (drawn == np.floor(drawn)).all()
    for r, column in zip(rate[1:], drawn.T[1:], strict=True):
        points = np.quantile(np.random.default_rng(0).poisson(r, 20000), [0.1, 0.5, 0.9])
        wanted = torch.special.gammaincc(torch.tensor(points) + 1.0, torch.tensor(r))
        found = [(column <= x).mean() for x in points]
        np.testing.assert_allclose(found, wanted, atol=0.015, err_msg=str(r))


MATRICES = ("covariance_matrix", "precision_matrix", "scale_tril")


@pytest.mark.parametrize("kind", MATRICES)
def test_normal_vectors_are_those_of_pytorch(kind, rng):
    n = 3
    a = rng.normal(size=(2, 2, n, n))
    matrix = a @ a.swapaxes(-1, -2) + np.eye(n)
    if kind == "scale_tril":
        matrix = np.linalg.cholesky(matrix)
    loc, value = rng.normal(size=(2, 4, 1, n)), rng.normal(size=(5, 4, 2, n))
    arrays = [loc[0], matrix[0], loc[1], matrix[1]]
    slots = [pd.Variable([*v.shape], dtype="float64") for v in arrays]
    leaves = [torch.tensor(v, requires_grad=True) for v in arrays]
    p, p2 = (d.MultivariateNormal(slots[k], **{kind: slots[k + 1]}) for k in (0, 2))
    q, q2 = (TD.MultivariateNormal(leaves[k], **{kind: leaves[k + 1]}) for k in (0, 2))
    assert p.batch_shape == (4, 2) and p.event_shape == (n,)
    pairs = [
        (p.log_prob(value), q.log_prob(torch.tensor(value))),
        *((p.entropy(), q.entropy()), (p.variance, q.variance), (p.mean, q.mean)),
        (p.covariance_matrix, q.covariance_matrix[0]),
        (d.kl_divergence(p, p2), TD.kl_divergence(q, q2)),
    ]
    targets, wanted = [], []
    for ours, theirs in pairs:
        slopes = pd.gradients(pd.reduce_sum(ours * ours), slots)
        targets.append((ours, [pd.constant(0.0) if g is None else g for g in slopes]))
        slopes = torch.autograd.grad(
            (theirs * theirs).sum(), leaves, allow_unused=True, retain_graph=True
        )
        wanted.append((theirs.detach(), slopes))
    found = pd.eval(targets, dict(zip(slots, arrays, strict=True)))
    for (y, slopes), (value, others) in zip(found, wanted, strict=True):
        np.testing.assert_allclose(y, value, rtol=1e-9)
        for g, other in zip(slopes, others, strict=True):
            other = 0.0 if other is None else other
            np.testing.assert_allclose(g, other, rtol=1e-7, atol=1e-9)


def test_draws_of_normal_vectors(rng):
    scale = pd.Variable("scale", data=np.array([[1.0, 0.0], [2.0, 0.5]]))
    p = d.MultivariateNormal([1.0, -1.0], scale_tril=scale)
    y = p.rsample([20000])
    (slope,) = pd.gradients(pd.reduce_sum(pd.square(y)) / 20000.0, [scale])
    drawn, slope = pd.eval([y, slope])
    assert drawn.shape == (20000, 2)
    np.testing.assert_allclose(drawn.mean(0), [1.0, -1.0], atol=0.05)
    np.testing.assert_allclose(np.cov(drawn.T), [[1.0, 2.0], [2.0, 4.25]], atol=0.1)
    np.testing.assert_allclose(np.tril(slope), 2 * np.tril(pd.eval(scale)), atol=0.1)
    assert np.isnan(pd.eval(d.MultivariateNormal(np.zeros(2), -np.eye(2)).log_prob(np.ones(2))))


def composed(of, make):
    """Distributions of distributions, of one module."""
    normal = of.Normal(make(np.stack([A, A + 1.0])), make(np.stack([B, B]) * 0.5))  # [2, 2, 3]
    return {
        "independent": (of.Independent(normal, 2), np.full((2, 3), 0.2)),
        "mixture": (
            of.MixtureSameFamily(of.Categorical(make(P)), of.Normal(make(A[0]), make(P))),
            np.array([-1.0, 0.0, 0.5, 2.5]),
        ),
        "mixture_of_vectors": (
            of.MixtureSameFamily(of.Categorical(make(np.ones((2, 2)))), of.Independent(normal, 1)),
            np.full((2, 3), 0.2),
        ),
    }


@pytest.mark.parametrize("name", ["independent", "mixture", "mixture_of_vectors"])
def test_composed_distributions(name):
    (p, value), (q, _) = (
        composed(d, lambda a: pd.constant(a, "float64"))[name],
        composed(TD, torch.tensor)[name],
    )
    found = pd.eval([p.log_prob(value), p.mean, p.variance])
    for y, expected in zip(
        found, [q.log_prob(torch.tensor(value)), q.mean, q.variance], strict=True
    ):
        np.testing.assert_allclose(y, expected, rtol=1e-6)
    assert p.batch_shape == tuple(q.batch_shape) and p.event_shape == tuple(q.event_shape)
    drawn = pd.eval(p.sample([4000]))
    assert drawn.shape == tuple(q.sample([4000]).shape)
    np.testing.assert_allclose(drawn.mean(0), q.mean, atol=0.15)
    np.testing.assert_allclose(drawn.var(0), q.variance, rtol=0.2)
    if name == "independent":
        np.testing.assert_allclose(pd.eval(p.entropy()), q.entropy(), rtol=1e-6)
        (other, _), (theirs, _) = (
            composed(d, lambda a: pd.constant(a + 0.1, "float64"))[name],
            composed(TD, lambda a: torch.tensor(a + 0.1))[name],
        )
        divergence = pd.eval(d.kl_divergence(p, other))
        np.testing.assert_allclose(divergence, TD.kl_divergence(q, theirs), rtol=1e-6)
        assert p.rsample([5]).shape == (5, 2, 2, 3)
    if name == "mixture":
        np.testing.assert_allclose(pd.eval(p.cdf(value)), q.cdf(torch.tensor(value)), rtol=1e-6)


def test_impossible_values():
    assert pd.eval(d.Uniform(0.0, 1.0).log_prob([-0.1, 1.0])).tolist() == [-np.inf] * 2
    assert pd.eval(d.Exponential(1.0).log_prob(-1.0)) == -np.inf
    sure = d.Categorical(probs=[0.0, 1.0])
    assert pd.eval(sure.entropy()) == 0
    assert pd.eval(d.kl_divergence(sure, d.Categorical(probs=[0.5, 0.5]))) == np.float32(np.log(2))
    assert pd.eval(sure.log_prob([0, 1])).tolist() == [-np.inf, 0]
    with pytest.raises(pd.OutOfRange, match="2"):
        pd.eval(sure.log_prob(pd.Variable("k", data=np.int64([0, 2]))))


def test_a_policy_learns_by_its_log_probabilities():
    """REINFORCE on a bandit of three arms, of which the last one pays."""
    pd.reset(seed=0)
    logits = pd.get_variable("logits", [3], initializer=pd.zero_initializer())
    optimizer = pd.SGDOptimizer(0.5)
    with pd.guard():
        for _ in range(60):
            policy = d.Categorical(logits=logits)
            arm = policy.sample((8,))
            reward = pd.stop_gradient(pd.cast(pd.equal(arm, 2), "float32") - 0.3)
            loss = -pd.reduce_mean(policy.log_prob(arm) * reward)
            loss.backward()
            optimizer.minimize(loss)
            logits.clear_gradient()
        assert policy.probs.numpy()[2] > 0.9


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: d.Normal(np.ones(2), np.ones(3)), pd.ShapeError, "Normal: the parameters do not"),
        (lambda: d.Normal(*MIXED), pd.DTypeError, "Normal: the parameters"),
        (lambda: d.Bernoulli(), TypeError, "Bernoulli: takes probs or logits"),
        (lambda: d.Categorical(P, P), TypeError, "Categorical: takes probs or logits"),
        (lambda: d.Categorical(logits=1.0), pd.ShapeError, "takes .*classes"),
        (lambda: d.Categorical(P).log_prob([0.5]), pd.DTypeError, "classes are integers"),
        (lambda: d.Bernoulli(P).rsample(), pd.GraphError, "Bernoulli has no rsample"),
        (lambda: d.Poisson(1.0).rsample(), pd.GraphError, "Poisson has no rsample"),
        (lambda: d.MultivariateNormal(np.zeros(2)), TypeError, "takes covariance_matrix, precis"),
        (
            lambda: d.MultivariateNormal(np.zeros(2), np.eye(2), np.eye(2)),
            TypeError,
            "takes covariance_matrix, precision_matrix or scale_tril",
        ),
        (
            lambda: d.MultivariateNormal(np.zeros(2), np.eye(3)),
            pd.ShapeError,
            r"loc is \[..., n\] and covariance_matrix \[..., n, n\], not",
        ),
        (
            lambda: d.MultivariateNormal(np.zeros((3, 2)), scale_tril=np.ones((2, 2, 2))),
            pd.ShapeError,
            "do not broadcast",
        ),
        (
            lambda: d.MultivariateNormal(MIXED[0], scale_tril=MIXED[1]),
            pd.DTypeError,
            "MultivariateNormal: the parameters",
        ),
        (lambda: d.Dirichlet(1.0), pd.ShapeError, "takes .*C"),
        (lambda: d.Independent(d.Bernoulli(P), 2), pd.ShapeError, "2 axes of distributions"),
        (
            lambda: d.MixtureSameFamily(d.Bernoulli(P), d.Bernoulli(P)),
            TypeError,
            "is a Categorical",
        ),
        (
            lambda: d.MixtureSameFamily(d.Categorical(P), d.Normal([0.0, 1.0], 1.0)),
            pd.ShapeError,
            "3 components, but distributions",
        ),
        (
            lambda: d.Normal(0.0, 1.0).log_prob(pd.Variable([3], dtype="float64")),
            pd.DTypeError,
            "values .* for parameters",
        ),
        (lambda: d.kl_divergence(d.Bernoulli(P), d.Categorical(P)), pd.GraphError, "no formula"),
    ],
)
def test_misuse(build, error, message):
    with pytest.raises(error, match=message):
        build()


def test_what_it_shows():
    x = pd.Variable("x", shape=[3])
    assert repr(d.Exponential(x)) == "Exponential(rate=x)"
    assert repr(d.Independent(d.Exponential(x), 1)) == "Independent(Exponential(rate=x), 1)"


def test_sizes_that_change_inside_a_guard():
    """What a line has seen with several sizes has numbers for them still."""
    with pd.guard():
        for n in (3, 4, 5, 3):
            loc, scale = np.zeros((2, n), np.float32), np.eye(n, dtype=np.float32)
            vectors = pd.distributions.MultivariateNormal(
                pd.to_variable(loc), scale_tril=pd.to_variable(scale)
            )
            np.testing.assert_allclose(
                vectors.log_prob(loc).numpy(), [-0.5 * n * np.log(2 * np.pi)] * 2, rtol=1e-5
            )
            classes = pd.distributions.Categorical(logits=pd.to_variable(loc))
            np.testing.assert_allclose(
                classes.log_prob(np.array([0, n - 1])).numpy(), [-np.log(n)] * 2, rtol=1e-5
            )
