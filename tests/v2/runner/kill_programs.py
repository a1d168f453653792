"""Programs that are killed: a script of 2017, and a GAN on the core's Runner."""

# `batch` on stdout after each batch; the second argument is a file for what is left at the end.
DIGITS = '''
import json
import random
import sys

import numpy as np
import paddle.v2 as paddle

BATCH = 16


def digits(count, seed):
    """Images of ten classes, each a pattern with noise."""
    patterns = np.random.RandomState(7).rand(10, 64).astype('float32')

    def reader():
        rng = np.random.RandomState(seed)
        for _ in xrange(count):
            label = rng.randint(10)
            yield patterns[label] + 0.3 * rng.randn(64).astype('float32'), label

    return reader


def multilayer_perceptron(img):
    hidden1 = paddle.layer.fc(input=img, size=32, act=paddle.activation.Relu())
    hidden2 = paddle.layer.fc(
        input=hidden1, size=16, act=paddle.activation.Relu(),
        layer_attr=paddle.attr.ExtraAttr(drop_rate=0.3))
    return paddle.layer.fc(input=hidden2, size=10, act=paddle.activation.Softmax())


def main():
    paddle.init(use_gpu=False, trainer_count=1)
    random.seed(3)
    images = paddle.layer.data(name='pixel', type=paddle.data_type.dense_vector(64))
    label = paddle.layer.data(name='label', type=paddle.data_type.integer_value(10))
    predict = multilayer_perceptron(images)
    cost = paddle.layer.classification_cost(input=predict, label=label)
    parameters = paddle.parameters.create(cost)
    optimizer = paddle.optimizer.Momentum(
        learning_rate=0.1 / BATCH, momentum=0.9,
        regularization=paddle.optimizer.L2Regularization(rate=0.0005 * BATCH))
    trainer = paddle.trainer.SGD(cost=cost, parameters=parameters, update_equation=optimizer)
    lists = []

    def event_handler(event):
        if isinstance(event, paddle.event.EndIteration):
            sys.stdout.write('batch\\n')
            sys.stdout.flush()
        if isinstance(event, paddle.event.EndPass):
            result = trainer.test(reader=paddle.batch(digits(64, 5), batch_size=BATCH))
            lists.append((event.pass_id, event.metrics, result.cost, result.metrics))
            with open('%s.pass%d' % (sys.argv[1], event.pass_id), 'w') as f:
                json.dump(lists[-1], f)

    trainer.train(
        reader=paddle.batch(
            paddle.reader.buffered(paddle.reader.shuffle(digits(PASS * BATCH, 4), 100), 40),
            batch_size=BATCH),
        event_handler=event_handler,
        num_passes=PASSES)
    if lists:  # else it had ended already
        print 'best pass is', sorted(lists, key=lambda found: found[2])[0][0]
    with open(sys.argv[1] + '.json', 'w') as f:
        json.dump([random.random(), np.random.rand()], f)
    with open(sys.argv[1], 'w') as f:
        parameters.to_tar(f)


if __name__ == '__main__':
    main()
'''

GAN = """
import json
import sys

import numpy as np
import pd_core as pd
from pd_core.training import (
    ArrayReader, Counter, Data, Device, ForwardBackward, Resume, RunnerItem, SaveEvery, Update,
    runner_of,
)

folder, result, every = sys.argv[1], sys.argv[2], int(sys.argv[3])
pd.reset(seed=3)
rng = np.random.default_rng(1)
real = rng.normal(2.0, 0.5, (PASS * 16, 4)).astype(np.float32)
noise = rng.normal(size=(PASS * 16, 3)).astype(np.float32)
x, z = pd.Variable(name="x", shape=[None, 4]), pd.Variable(name="z", shape=[None, 3])


def judged(v):
    with pd.namespace("d"):
        hidden = pd.dropout(pd.tanh(pd.fc(v, 16, W="W1", B="b1")), 0.2)
        return pd.fc(hidden, 1, W="W2", B="b2")


with pd.namespace("g"):
    drawn = pd.fc(pd.relu(pd.fc(z, 16, W="W1", B="b1")), 4, W="W2", B="b2")
cost_d = pd.reduce_mean(pd.softplus(-judged(x)) + pd.softplus(judged(drawn)))
cost_g = pd.reduce_mean(pd.softplus(-judged(drawn)))


class Say(RunnerItem):
    def on_batch_end(self, following):
        sys.stdout.write("batch\\n")
        sys.stdout.flush()
        return following()


items = [
    Device(),
    Counter(),
    Data(ArrayReader(real, noise, batch_size=16, shuffle=True), [x, z]),
    ForwardBackward(cost_d),
    Update(pd.AdamOptimizer(0.01, beta1=0.5), pd.trainable_variables("d/")),
    ForwardBackward(cost_g),
    Update(pd.AdamOptimizer(0.02, beta1=0.5), pd.trainable_variables("g/")),
    Say(),
]
if every:
    items += [SaveEvery(every, folder, on_sigterm=True), Resume(folder, begin=True)]
with runner_of(items) as runner:
    context = runner.run(PASSES)
values = {v.name: array for v, array in pd.default_session().values().items()}
np.savez(result, **dict(sorted(values.items())))
with open(result + ".json", "w") as f:
    json.dump([context.pass_metrics, context.batches, pd.default_session().state()["draws"]], f)
"""
