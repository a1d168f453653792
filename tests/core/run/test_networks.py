"""Several networks in one program: adversaries, one batch for two, shared parts, halves, chains."""

from types import SimpleNamespace

import numpy as np
import pytest

import pd_core as pd

f32 = np.float32


def ones(*shape):
    return np.ones(shape, f32)


def snap(variables):
    return [v.val().copy() for v in variables]


def equal(p, q):
    return all((a == b).all() for a, b in zip(p, q, strict=True))


# ---- adversaries: D is built twice on one set of parameters


def adversaries(noise=100, size=784, hidden=128, rate=0.001, **adam):
    Z, X = pd.Variable([None, noise]), pd.Variable([None, size])
    one, zero = pd.Variable([None, 1]), pd.Variable([None, 1])

    def generator(z):
        with pd.namespace("generator"):
            h = pd.relu(pd.fc(z, hidden, W="W1", B="b1"))
            return pd.sigmoid(pd.fc(h, size, W="W2", B="b2"))

    def discriminator(x):
        with pd.namespace("discriminator"):
            logit = pd.fc(pd.relu(pd.fc(x, hidden, W="W1", B="b1")), 1, W="W2", B="b2")
            return pd.sigmoid(logit), logit

    def bce(p, t):
        return pd.reduce_mean(pd.binary_cross_entropy(p, t))

    fake = generator(Z)
    p_real, _ = discriminator(X)
    p_fake, _ = discriminator(fake)
    D_loss, G_loss = bce(p_real, one) + bce(p_fake, zero), bce(p_fake, one)
    theta_D = pd.trainable_variables("discriminator/")
    theta_G = pd.trainable_variables("generator/")
    D_step = pd.AdamOptimizer(rate, **adam).minimize(D_loss, var_list=theta_D)
    G_step = pd.AdamOptimizer(rate, **adam).minimize(G_loss, var_list=theta_G)
    pd.eval(pd.variable_initializers(vars=theta_D + theta_G))
    return SimpleNamespace(
        Z=Z,
        X=X,
        one=one,
        zero=zero,
        theta_D=theta_D,
        theta_G=theta_G,
        fake=fake,
        p_real=p_real,
        p_fake=p_fake,
        D_loss=D_loss,
        G_loss=G_loss,
        D_step=D_step,
        G_step=G_step,
    )


@pytest.fixture
def gan(rng):
    net = adversaries()
    net.z = lambda: rng.uniform(-1, 1, (16, 100)).astype(f32)
    net.d_feed = lambda: {
        net.X: rng.uniform(size=(16, 784)).astype(f32),
        net.Z: net.z(),
        net.one: ones(16, 1),
        net.zero: np.zeros((16, 1), f32),
    }
    return net


def test_gan_steps_touch_only_their_own(gan):
    g0, d0 = snap(gan.theta_G), snap(gan.theta_D)
    pd.eval([gan.D_step, gan.D_loss], feeds=gan.d_feed())
    assert equal(g0, snap(gan.theta_G))
    assert not equal(d0, snap(gan.theta_D))
    d1 = snap(gan.theta_D)
    pd.eval(gan.G_step, feeds={gan.Z: gan.z(), gan.one: ones(16, 1)})  # X not fed: not needed
    assert equal(d1, snap(gan.theta_D))
    assert not equal(g0, snap(gan.theta_G))
    assert len(pd.trainable_variables()) == 8  # D built twice, parameters once


def test_what_gan_steps_need_and_take(gan):
    d_feed = gan.d_feed()
    pd.eval([gan.G_step, gan.G_loss], feeds=d_feed)  # X and zero are surplus
    with pytest.raises(pd.MissingFeed, match=gan.X.name):
        pd.eval(gan.D_step, feeds={k: v for k, v in d_feed.items() if k is not gan.X})
    fake = pd.eval(gan.fake, feeds={gan.Z: gan.z()})
    assert fake.shape == (16, 784)
    feeds = {gan.X: fake, gan.fake: fake}  # neither noise nor generator
    assert (pd.eval(gan.p_real, feeds) == pd.eval(gan.p_fake, feeds)).all()


def test_gradients_flow_through_the_discriminator(gan):
    found = pd.gradients(gan.G_loss, gan.theta_G)
    feeds = {gan.Z: gan.z(), gan.one: ones(16, 1)}
    assert all(np.abs(g).max() > 0 for g in pd.eval(found, feeds))


def test_a_generator_learns_a_uniform_distribution(rng):
    """Points of [0.3, 0.7]^2 in 600 steps: the mean comes within 0.1 of 0.5 per coordinate."""
    net = adversaries(noise=2, size=2, hidden=16, rate=0.005, beta1=0.5)
    pd.eval(pd.assign(pd.get_variable("generator/b2"), [2.0, -2.0]))  # from a corner
    fixed = {net.one: ones(64, 1), net.zero: np.zeros((64, 1), f32)}

    def noise(count=64):
        return rng.uniform(-1, 1, (count, 2)).astype(f32)

    start = pd.eval(net.fake, feeds={net.Z: noise(500)}).mean(0)
    assert (np.abs(start - 0.5) > 0.3).all()
    for _ in range(600):
        real = rng.uniform(0.3, 0.7, (64, 2)).astype(f32)
        pd.eval(net.D_step, feeds={net.X: real, net.Z: noise(), **fixed})
        pd.eval(net.G_step, feeds={net.Z: noise(), **fixed})
    end = pd.eval(net.fake, feeds={net.Z: noise(500)}).mean(0)
    assert (np.abs(end - 0.5) < 0.1).all()


# ---- two networks on one mini-batch


def test_two_networks_same_minibatch():
    rng = np.random.RandomState(0)
    data = [(rng.rand(8, 1, 12, 12).astype(f32), rng.randint(0, 10, (8, 1))) for _ in range(5)]

    def mlp(img):
        return pd.softmax(pd.fc(pd.reshape(img, [-1, 144]), size=16), size=10)

    def cnn(img):
        h = pd.pool2d(pd.conv2d(img, num_filters=4, filter_size=5), 2, 2)
        return pd.softmax(pd.reshape(h, [-1, 64]), size=10)

    def run(which):
        pd.reset(seed=3)
        img, lab = pd.Variable([None, 1, 12, 12]), pd.Variable([None, 1], dtype="int64")
        nets = {}
        for k, f in which.items():
            with pd.namespace(k):
                c = pd.reduce_mean(pd.cross_entropy(f(img), lab))
                nets[k] = (c, pd.SGDOptimizer(0.1).minimize(c))
        hist = {k: [] for k in nets}
        for x, y in data:
            for k, (c, s) in nets.items():  # same mini-batch on both, step by step
                hist[k].append(float(pd.eval([s, c], feeds={img: x, lab: y})[1]))
        return hist

    both = run({"mlp": mlp, "cnn": cnn})
    assert both["mlp"] == run({"mlp": mlp})["mlp"]
    assert both["cnn"] == run({"cnn": cnn})["cnn"]


@pytest.mark.parametrize("evaluations", [0, 2])
def test_dropout_of_one_network_does_not_depend_on_the_other(evaluations):
    def run(names):
        pd.reset(seed=3)
        x = pd.Variable([None, 6])
        nets = {}
        for name in names:
            with pd.namespace(name):
                y = pd.fc(pd.dropout(pd.fc(x, 8, act="tanh"), 0.5), 1)
                cost = pd.reduce_mean(pd.square(y - 1.0))
                nets[name] = cost, pd.AdamOptimizer(0.1).minimize(cost)
        found = []
        for _ in range(4):
            for name, (cost, step) in nets.items():
                value = float(pd.eval([step, cost], feeds={x: ones(5, 6)})[1])
                found += [value] if name == "a" else []
                for _ in range(evaluations):  # testing in between changes nothing either
                    pd.eval(cost, feeds={x: ones(2, 6)})
        return found

    assert run("ab") == run("ba") == run("a")
    assert len(set(run("a"))) == 4


# ---- shared parts


def test_three_branches_share_and_subnet_infers():
    def f(x):
        return pd.fc(pd.embedding(x, size=[50, 8], W="emb"), size=4, W="sem", B="semb")

    A, B, Q = (pd.Variable([None, 1], dtype="int64") for _ in range(3))
    fa, fb, fq = f(A), f(B), f(Q)
    assert len(pd.trainable_variables()) == 3
    distance = pd.reduce_sum(fa * fq, 1) - pd.reduce_sum(fb * fq, 1)
    cost = pd.reduce_mean(pd.relu(distance + 1.0))
    step = pd.SGDOptimizer(0.1).minimize(cost)
    ids = np.array([[1], [2]])
    before = pd.eval(fb, feeds={B: ids})
    pd.eval(step, feeds={A: ids, B: ids + 3, Q: ids + 5})
    after = pd.eval([fa, fb], feeds={A: ids, B: ids})
    assert (after[0] == after[1]).all()
    assert (after[0] != before).any()


def test_a_part_of_a_trained_network_infers_alone():
    x, t = pd.Variable([None, 4]), pd.Variable([None, 1])
    h = pd.fc(x, 3, act="tanh")
    step = pd.SGDOptimizer(0.1).minimize(pd.reduce_mean(pd.square(pd.fc(h, 1) - t)))
    w, b = pd.trainable_variables()[:2]
    before = pd.eval(h, feeds={x: ones(1, 4)})
    pd.eval(step, feeds={x: ones(2, 4), t: ones(2, 1)})
    after = pd.eval(h, feeds={x: ones(1, 4)})
    assert (before != after).any()
    assert np.allclose(after, np.tanh(ones(1, 4) @ w.val() + b.val()))


# ---- one network, two sources of data


def test_left_half_right_half():
    x, t = pd.Variable([None, 4]), pd.Variable([None, 1])
    with pd.namespace("left") as L:
        left = pd.fc(x, size=3)
    with pd.namespace("right") as R:
        right = pd.fc(x, size=3)
    y = pd.reduce_sum(left, 1, keep_dim=True) + pd.reduce_sum(right, 1, keep_dim=True)
    cost = pd.reduce_mean(pd.square(y - t))
    sl, sr = (pd.SGDOptimizer(0.05).minimize(cost, var_list=n.variables()) for n in (L, R))
    l0, r0 = snap(L.variables()), snap(R.variables())
    pd.eval(sl, feeds={x: ones(2, 4), t: ones(2, 1)})
    assert not equal(l0, snap(L.variables()))
    assert equal(r0, snap(R.variables()))
    l1 = snap(L.variables())
    pd.eval(sr, feeds={x: -ones(2, 4), t: ones(2, 1)})
    assert equal(l1, snap(L.variables()))
    assert not equal(r0, snap(R.variables()))


# ---- chains


def test_chained_networks_three_ways_to_freeze():
    def go(how):
        pd.reset(seed=1)
        x, t = pd.Variable([None, 4]), pd.Variable([None, 1])
        with pd.namespace("n1") as n1:
            h = pd.tanh(pd.fc(x, size=5))
            c1 = pd.reduce_mean(pd.square(h))
        s1 = pd.SGDOptimizer(0.1).minimize(c1, var_list=n1.variables())
        with pd.namespace("n2") as n2:
            y = pd.fc(pd.stop_gradient(h) if how == "stop" else h, size=1)
        c2 = pd.reduce_mean(pd.square(y - t))
        optimizer = pd.SGDOptimizer(0.1)
        s2 = optimizer.minimize(c2, var_list=n2.variables() if how == "list" else None)
        F = {x: ones(3, 4), t: ones(3, 1)}
        for _ in range(3):
            pd.eval(s1, feeds=F)
        if how == "flag":
            for v in n1.variables():
                v.trainable = False
        frozen = snap(n1.variables())
        for _ in range(3):
            pd.eval(s2, feeds=F)
        assert len(frozen) == 2
        assert equal(frozen, snap(n1.variables())) == (how != "jointly")
        return float(pd.eval(c2, feeds=F))

    assert go("list") == go("flag") == go("stop")
    assert go("jointly") != go("list")


def test_moving_statistics_belong_to_training_steps():
    x = pd.Variable([None, 2])
    scale, shift = pd.Variable("scale", data=ones(2)), pd.Variable("shift", data=np.zeros(2))
    mean = pd.Variable("mean", data=np.zeros(2), trainable=False)
    var = pd.Variable("var", data=ones(2), trainable=False)
    y = pd.batch_norm(x, scale, shift, mean, var, momentum=0.5)
    cost = pd.reduce_mean(pd.square(y - 1.0))
    step = pd.SGDOptimizer(0.1).minimize(cost)
    feeds = {x: f32([[0.0, 2.0], [2.0, 6.0]])}
    pd.eval([y, cost], feeds)
    pd.eval(y, feeds, training=True)  # no step, so nothing is stored
    assert not mean.val().any()
    pd.eval(step, feeds)
    assert np.allclose(mean.val(), [0.5, 2.0])
    assert np.allclose(var.val(), [1.0, 2.5])
    assert np.allclose(
        pd.eval(y, feeds),
        (feeds[x] - mean.val()) / np.sqrt(var.val() + 1e-5) * scale.val() + shift.val(),
        atol=1e-6,
    )


# ---- a whole program


def test_digits_from_one_graph(rng):
    """Training and test targets of one graph: the cost falls, testing changes nothing."""
    centres = rng.normal(size=(10, 784)).astype(f32)

    def batch(count):
        labels = rng.integers(0, 10, (count, 1))
        noise = rng.normal(size=(count, 784)).astype(f32)
        return centres[labels[:, 0]] + 2 * noise, labels

    image, label = pd.Variable([None, 784]), pd.Variable([None, 1], dtype="int64")
    prediction = pd.softmax(pd.fc(image, size=64, act="relu"), size=10)
    cost = pd.reduce_mean(pd.cross_entropy(prediction, label))
    error = pd.classification_error(prediction, label)
    step = pd.SGDOptimizer(learning_rate=0.1).minimize(cost)
    test = dict(zip((image, label), batch(200), strict=True))
    first = pd.eval([cost, error], feeds=test)
    for _ in range(60):
        x, y = batch(64)
        pd.eval([step, cost], feeds={image: x, label: y})
    last = pd.eval([cost, error], feeds=test)
    assert last == pd.eval([cost, error], feeds=test)
    assert first[1] > 0.7
    assert last[1] < 0.05
    assert last[0] < first[0] / 5
    rows = pd.eval(prediction, feeds={image: test[image]})
    wrong = rows.argmax(1) != test[label][:, 0]
    assert np.isclose(last[1], wrong.mean())
