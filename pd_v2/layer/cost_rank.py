"""Listwise ranking costs."""

import pd_core as pd

from .base import layer
from .image import whole
from .sequence import needs_sequences


@layer("lambda_cost", "lambda_cost", inputs=("input", "score"), rows=("input", "score"))
def lambda_cost(scope, input, score, name=None, NDCG_num=5, max_sort_size=-1, layer_attr=None):
    """LambdaRank: the value is NDCG at `NDCG_num` of each list, repeated on each of its rows.

    A list is a sequence; `input` scores its items, `score` is their relevance. Higher NDCG is
    better, so training does not minimise this value: the gradient is that of `pd.lambda_rank`,
    over the `max_sort_size` most relevant items, or all for -1.
    """
    for x in (input, score):
        if x.size != 1:
            raise pd.ShapeError(f"an item has 1 number, {x.name!r} is {x.size} wide")
    whole("NDCG_num", NDCG_num)
    if max_sort_size != -1 and max_sort_size < NDCG_num:
        raise pd.GraphError(
            f"max_sort_size is -1 or at least NDCG_num, {NDCG_num}, not {max_sort_size!r}"
        )
    scope.config.NDCG_num, scope.config.max_sort_size = NDCG_num, max_sort_size
    lists = needs_sequences(input)
    needs_sequences(score)
    scores, relevance = (pd.squeeze(pd.stop_gradient(x), 1) for x in (input, score))
    value = lists.repeat(pd.ndcg(lists, scores, relevance, NDCG_num))
    limit = None if max_sort_size == -1 else max_sort_size
    gradient = pd.lambda_rank(lists, scores, relevance, NDCG_num, limit)
    # zero in the forward pass, with this gradient in the backward pass
    surrogate = input * pd.unsqueeze(pd.stop_gradient(gradient), 1)
    return pd.unsqueeze(value, 1) + (surrogate - pd.stop_gradient(surrogate))
