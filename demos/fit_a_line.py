"""Predict the price of houses by linear regression, as in chapter 1 of the 2017 paddle.v2 book.

The data are 506 districts of Boston with 13 features and the price in 1,000 dollars. The cost is
the squared error.
"""

import argparse
import logging
import os
import random
from pathlib import Path

os.environ.setdefault("PD_DATASET_HOME", str(Path(__file__).resolve().parent / "data"))
os.environ.setdefault("PD_DATASET_CHECK", "0")

import numpy as np

import pd_v2 as paddle
from picture import points, require

BATCH = 2
PASSES, QUICK_PASSES = 30, 5
BOUND = 40.0  # predicting the mean price costs 93


def train(cost, parameters, passes, out):
    """Train for some passes, draw the costs into cost.png, and return the last test cost."""
    trainer = paddle.trainer.SGD(
        cost=cost,
        parameters=parameters,
        update_equation=paddle.optimizer.Momentum(learning_rate=1e-3),
    )
    curves, costs = paddle.plot.Ploter("train cost", "test cost"), []

    def event_handler(event):
        if isinstance(event, paddle.event.EndIteration):
            costs.append(event.cost)
        if isinstance(event, paddle.event.EndPass):
            result = trainer.test(paddle.batch(paddle.dataset.uci_housing.test(), BATCH))
            curves.append("train cost", event.pass_id, np.mean(costs))
            curves.append("test cost", event.pass_id, result.cost)
            if event.pass_id % 5 == 4:
                print(
                    f"pass {event.pass_id + 1:2}  train cost {np.mean(costs):5.1f}"
                    f"  test cost {result.cost:5.1f}"
                )
            costs.clear()

    houses = paddle.reader.shuffle(paddle.dataset.uci_housing.train(), buf_size=500)
    trainer.train(
        paddle.batch(houses, BATCH),
        num_passes=passes,
        event_handler=event_handler,
        feeding={"x": 0, "y": 1},
    )
    curves.plot(str(out / "cost.png"))
    return trainer.test(paddle.batch(paddle.dataset.uci_housing.test(), BATCH)).cost


def draw(prices, predictions, path):
    """Draw the prediction of each house over its price."""
    exact = np.array([prices.min(), prices.max()])
    panel = {"houses": np.stack([prices, predictions], 1), "exact": np.stack([exact, exact], 1)}
    points(path, {"Prices of houses": panel}, "price, 1000 $", "prediction, 1000 $", ["exact"])


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_PASSES} passes, not {PASSES}")
    parser.add_argument("--out", type=Path, default=Path("output"), help="default: ./output")
    args = parser.parse_args(argv)
    require("matplotlib")
    args.out.mkdir(parents=True, exist_ok=True)
    logging.getLogger("paddle").setLevel(logging.WARNING)  # it reports every unchecked data file
    random.seed(1)  # for shuffling; initial values come from the seed of paddle.init

    paddle.init(use_gpu=False, trainer_count=1)
    x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(13))
    y = paddle.layer.data(name="y", type=paddle.data_type.dense_vector(1))
    predicted = paddle.layer.fc(input=x, size=1, act=paddle.activation.Linear())
    cost = paddle.layer.square_error_cost(input=predicted, label=y)
    parameters = paddle.parameters.create(cost)
    passes = QUICK_PASSES if args.quick else PASSES
    test_cost = train(cost, parameters, passes, args.out)

    tar = args.out / "fit_a_line.tar"
    with open(tar, "wb") as f:
        parameters.to_tar(f)
    with open(tar, "rb") as f:
        loaded = paddle.parameters.Parameters.from_tar(f)

    houses = list(paddle.dataset.uci_housing.test())
    predictions = paddle.infer(predicted, loaded, input=[(features,) for features, _ in houses])
    prices = np.array([price[0] for _, price in houses])
    print("price     ", *(f"{price:5.1f}" for price in prices[:8]))
    print("prediction", *(f"{price:5.1f}" for price in predictions[:8, 0]))
    draw(prices, predictions[:, 0], args.out / "prices.png")
    print(f"off by {np.sqrt(test_cost):.1f} thousand dollars (root mean square); see {args.out}")
    if not np.isclose(np.mean((predictions[:, 0] - prices) ** 2), test_cost, rtol=1e-3):
        raise SystemExit("the saved parameters give other predictions")
    if test_cost > BOUND:
        raise SystemExit(f"did not learn: test cost {test_cost:.1f}, more than {BOUND}")


if __name__ == "__main__":
    main()
