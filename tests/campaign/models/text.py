"""Random nodes of classical models, and text between them."""

import numpy as np

from .draw import Draw
from .elementwise import recipe

ML = "ai.onnx.ml"
WORDS = ("red", "Green", "blue", "", "the", "grün", "a b")


def words(d: Draw, *shape: int, how: str = "") -> str:
    """Add a constant of text."""
    array = np.array([d.one(WORDS) for _ in range(int(np.prod(shape)))], object).reshape(shape)
    return d.give(array, how or d.one(("stored", "constant")))


def labels(d: Draw) -> str:
    """Return text that is a constant, or chosen by numbers."""
    if d.chance(0.4):
        return words(d, *d.dims(d.number(0 if d.opset > 8 else 1, 2)))
    x = d.any(("int64",))
    keys = [0, 1, 2, -1]
    values = [d.one(WORDS) for _ in keys]
    a = {"keys_int64s": keys, "values_strings": values}
    if d.chance(0.6):
        a["default_string"] = d.one(WORDS)
    return d.node("LabelEncoder", [x], domain=ML, **a)[0]


@recipe(11, "Equal text")
def equal(d: Draw, op_type: str):
    x = labels(d)
    y = words(d) if d.chance(0.6) else words(d, *(1 if d.chance(0.4) else n for n in d.shape(x)))
    return d.node("Equal", [x, y] if d.chance(0.6) else [y, x])


@recipe(10, "StringNormalizer")
def normalizer(d: Draw, op_type: str):
    x = words(d, d.number(1, 3)) if d.chance(0.8) else words(d, 1, d.number(1, 3))
    a = {"case_change_action": d.one((None, "LOWER", "UPPER", "NONE"))}
    a["is_case_sensitive"] = d.one((None, 0, 1))
    a["stopwords"] = d.one((None, ["red", "the"]))
    (y,) = d.node(op_type, [x], **a)
    if d.chance(0.5):
        return encoded(d, y)
    return d.node("Equal", [y, words(d)])


def encoded(d: Draw, x: str):
    """Add numbers of text."""
    if d.chance(0.4):
        keys = list(dict.fromkeys(d.one(WORDS) for _ in range(3)))
        a = {"cats_strings": keys, "cats_int64s": list(range(len(keys)))}
        return d.node("CategoryMapper", [x], domain=ML, default_int64=d.one((None, 7)), **a)
    keys = list(dict.fromkeys(d.one(WORDS) for _ in range(3)))
    if d.chance(0.5):
        a = {"values_floats": [float(k) + 0.5 for k in range(len(keys))]}
        a["default_float"] = d.one((None, 2.5))
    else:
        a = {"values_int64s": list(range(len(keys))), "default_int64": d.one((None, 9))}
    return d.node("LabelEncoder", [x], domain=ML, keys_strings=keys, **a)


@recipe(10, "LabelEncoder")
def encoder(d: Draw, op_type: str):
    kind = d.number(0, 3)
    if kind == 0:
        return encoded(d, labels(d))
    if kind == 1:
        a = {"keys_int64s": [0, 1, 2], "values_floats": [0.5, 1.5, 2.5]}
        return d.node(op_type, [d.any(("int64",))], domain=ML, **a)
    a = {"keys_int64s": [0, 1, 2], "values_int64s": [5, 6, 7], "default_int64": d.one((None, 3))}
    return d.node(op_type, [d.any(("int64",))], domain=ML, **a)


@recipe(10, "text moved")
def moved(d: Draw, op_type: str):
    x = labels(d)
    for _ in range(d.number(1, 2)):
        rank = len(d.shape(x))
        kind = d.number(0, 6)
        if kind == 0 and rank:
            # of slices of text ONNX Runtime 1.31 copies the first element alone: those of one
            size = d.shape(x)[-1]
            index = d.rng.integers(0, max(size, 1), (2,) if size else (0,))
            (x,) = d.node("Gather", [x, d.fixed(index)], axis=rank - 1)
        elif kind == 1:
            (x,) = d.node("Reshape", [x, d.fixed([-1])])
        elif kind == 2:
            (x,) = d.node("Identity", [x])
        elif kind == 3:
            other = words(d, *d.shape(x))
            (x,) = d.node("Where", [d.any(("bool",), shape=d.shape(x)), x, other])
        elif kind == 4 and rank:
            (x,) = d.node("Concat", [x, words(d, *d.shape(x))], axis=0)
        elif kind == 5 and d.opset >= 20:
            (x,) = d.node("StringConcat", [x, words(d)])
        elif kind == 6:
            (x,) = (
                d.node("Unsqueeze", [x, d.fixed([0])])
                if d.opset >= 13
                else d.node("Unsqueeze", [x], axes=[0])
            )
    return encoded(d, x) if d.chance(0.5) else d.node("Equal", [x, words(d)])


@recipe(13, "text cast")
def cast(d: Draw, op_type: str):
    texts = np.array([d.one(("1", "-2.5", "3e2", "0")) for _ in range(3)], object)
    return d.node("Cast", [d.give(texts, d.one(("stored", "constant")))], to=d.one((1, 11)))


@recipe(9, "Scaler", "Normalizer", "Binarizer", "Imputer", "LinearRegressor", "LinearClassifier")
@recipe(9, "FeatureVectorizer", "ArrayFeatureExtractor", "OneHotEncoder")
def classical(d: Draw, op_type: str):
    n, k = d.number(1, 3), d.number(1, 4)
    x = d.any(
        ("float32", "float64", "int64") if op_type == "Scaler" else ("float32",), shape=(n, k)
    )
    floats = [round(float(v), 3) for v in d.rng.uniform(0.3, 2, 12)]
    if op_type == "Scaler":
        count = d.one((1, k))
        return d.node(op_type, [x], domain=ML, offset=floats[:count], scale=floats[2 : 2 + count])
    if op_type == "Normalizer":
        return d.node(op_type, [x], domain=ML, norm=d.one(("MAX", "L1", "L2")))
    if op_type == "Binarizer":
        return d.node(op_type, [x], domain=ML, threshold=d.one((None, 0.4)))
    if op_type == "Imputer":
        array = d.array((n, k))
        array.flat[0] = np.nan
        x = d.give(array)
        return d.node(
            op_type,
            [x],
            domain=ML,
            imputed_value_floats=floats[: d.one((1, k))],
            replaced_value_float=float("nan"),
        )
    if op_type == "LinearRegressor":
        t = d.number(1, 2)
        a = {"intercepts": floats[:t]} if d.chance(0.6) else {}
        post = d.one((None, "NONE"))
        return d.node(
            op_type,
            [x],
            domain=ML,
            coefficients=floats[: t * k],
            targets=t,
            post_transform=post,
            **a,
        )
    if op_type == "LinearClassifier":
        c = d.number(2, 3)
        post = d.one((None, "NONE", "SOFTMAX", "LOGISTIC"))
        return d.node(op_type, [x], 2, domain=ML, coefficients=floats[: c * k], intercepts=floats[:c],  # noqa: E501
                      classlabels_ints=list(range(5, 5 + c)), post_transform=post)  # fmt: skip
    if op_type == "FeatureVectorizer":
        return d.node(op_type, [x, d.new(n, 2)], domain=ML, inputdimensions=[k, 2])
    if op_type == "ArrayFeatureExtractor":
        return d.node(op_type, [x, d.fixed(d.rng.integers(0, k, d.number(1, 3)))], domain=ML)
    x = d.any(("int64",), shape=(n,))
    return d.node(op_type, [x], domain=ML, cats_int64s=[0, 1, 2], zeros=1)
