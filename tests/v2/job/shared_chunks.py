"""A trainer of a cluster that reads chunks: `python -m pd_v2 shared_chunks.py FILES FOLDER`."""

import json
import os
import sys

import pd_v2 as paddle

files, folder = sys.argv[1:]
paddle.init(use_gpu=False, trainer_count=1)
x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(3))
y = paddle.layer.data(name="y", type=paddle.data_type.dense_vector(1))
fit = paddle.layer.fc(input=x, size=1, act=paddle.activation.Linear())
cost = paddle.layer.square_error_cost(input=fit, label=y)
parameters = paddle.parameters.create(cost)
trainer = paddle.trainer.SGD(
    cost, parameters, paddle.optimizer.Momentum(learning_rate=0.01), is_local=False
)
samples = paddle.reader.creator.cloud_reader([files], "http://127.0.0.1:2379")
seen = []


def read():
    seen.append([])
    for sample in samples():
        seen[-1].append(sample[2])
        yield sample[:2]


def handler(event):
    if isinstance(event, paddle.event.EndPass):
        print("pass", event.pass_id)


trainer.train(paddle.batch(read, 2), num_passes=3, event_handler=handler)
rank = os.environ["PADDLE_INIT_TRAINER_ID"]
values = {name: parameters.get(name).tolist() for name in parameters.names()}
with open(f"{folder}/{rank}.json", "w") as f:
    json.dump([[p for p in seen if p], values], f)
