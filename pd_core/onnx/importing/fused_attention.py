"""Attention and rotary embeddings as ONNX Runtime's optimizers write them, in text of functions."""

from .fused_calls import Call, axes_text, number_text

_UNREAD = {  # inputs by their place, which are for decoding with buffers
    "Attention": {6: "past_sequence_length"},
    "MultiHeadAttention": {8: "past_sequence_length", 9: "cache_indirection"},
}


def attention(call: Call) -> str:
    """Softmax(q k' scale + masks) v with heads of one product x W + b, [B, T, H].

    The inputs are x, W, b, a mask, the past of keys and values in one tensor, and what is added to
    the scores; the outputs are the result, and keys and values together.
    """
    _refuse(call)
    if call.get("do_rotary", 0):
        raise call.fail("rotary embeddings inside of it are not read")
    sizes = call.get("qkv_hidden_sizes", None)
    text = "product = MatMul(x0, x1)\n"
    text += "qkv = Add(product, x2)\n" if call.has(2) else "qkv = Identity(product)\n"
    if sizes:
        text += axes_text("parts", sizes) + "q, k, v = Split<axis = -1>(qkv, parts)\n"
    else:
        text += "q, k, v = Split<axis = -1, num_outputs = 3>(qkv)\n"
    text += _heads(call, "q") + _heads(call, "k") + _heads(call, "v")
    if call.has(4):
        text += (
            f"{axes_text('first', [0])} past, past2 = Split<axis = 0, num_outputs = 2>(x4)\n"
            "past_k = Squeeze(past, first) past_v = Squeeze(past2, first)\n"
        )
    text += _with_past(call.has(4), "past_k", "past_v")
    text += _scores(call, 3, 5)
    if call.reads(1):
        text += (
            f"{axes_text('lead', [0])} k5 = Unsqueeze(keys, lead) v5 = Unsqueeze(values, lead)\n"
            "y1 = Concat<axis = 0>(k5, v5)\n"
        )
    return text


def multi_head_attention(call: Call) -> str:
    """Softmax(q k' scale + masks) v of q [B, T, H], k [B, L, H] and v [B, L, H'].

    Keys and values may have heads already, [B, N, L, D]. The inputs are q, k, v, their bias, a mask
    of keys, what is added to the scores, past keys and past values.
    """
    _refuse(call)
    if not (call.has(1) and call.has(2)):
        raise call.fail("queries, keys and values in one tensor are not read")
    ranks = [call.rank(k, "its sizes decide what its inputs are") for k in (0, 1)]
    if ranks[0] != 3:
        raise call.fail(f"queries of {ranks[0]} axes are not read")
    if ranks[1] not in (3, 4):
        raise call.fail(f"keys of {ranks[1]} axes are not read")
    split = ranks[1] == 3
    text = ""
    if call.has(3):
        text += (
            f"{axes_text('from', [0])} {axes_text('far', [2**31 - 1])}\n"
            "width = Shape<start = 2, end = 3>(x0) twice = Add(width, width)\n"
            "bias_q = Slice(x3, from, width) bias_k = Slice(x3, width, twice)\n"
            "bias_v = Slice(x3, twice, far) q = Add(x0, bias_q)\n"
        )
    else:
        text += "q = Identity(x0)\n"
    for k, name in ((1, "k"), (2, "v")):
        biased = call.has(3) and split
        text += f"{name} = Add(x{k}, bias_{name})\n" if biased else f"{name} = Identity(x{k})\n"
    text += _heads(call, "q")
    if split:
        text += _heads(call, "k") + _heads(call, "v")
    else:
        text += "k_heads = Identity(k) v_heads = Identity(v)\n"
    text += _with_past(call.has(6), "x6", "x7")
    text += _scores(call, 4, 5)
    return text + "".join(
        f"y{k} = Identity({v})\n" for k, v in ((1, "keys"), (2, "values")) if call.reads(k)
    )


def rotary_embedding(call: Call) -> str:
    """Turn pairs of features by angles of their places (Su et al. 2021).

    The inputs are x [B, T, H] or [B, N, T, D], places [B, T] or the first place [1], and tables of
    cosines and sines [places, D / 2].
    """
    why = "its sizes decide how it is turned"
    rank, places = call.rank(0, why), call.rank(1, why)
    if call.get("is_packed_batching", 0):
        raise call.fail("packed batches are not read")
    if call.get("scale", 1.0) != 1.0:
        raise call.fail(f"its scale is {call.get('scale', 1.0)}, which its kernel does not use")
    part, heads = call.get("rotary_embedding_dim", 0), call.get("num_heads", 0)
    if rank == 4:
        text = "h = Transpose<perm = [0, 2, 1, 3]>(x0)\n"
    elif heads:
        text = f"{axes_text('split', [0, 0, heads, -1])} h = Reshape(x0, split)\n"
    else:
        text = (
            "half = Shape<start = 1, end = 2>(x2) whole = Add(half, half)\n"
            f"{axes_text('lead', [0, 0, -1])} split = Concat<axis = 0>(lead, whole)\n"
            "h = Reshape(x0, split)\n"
        )
    if places == 1:
        text += (
            f"count = Shape<start = 1, end = 2>(h) {axes_text('no', [0])}\n"
            "limit = Squeeze(count, no) zero = Constant<value_int = 0>()\n"
            "one = Constant<value_int = 1>() steps = Range(zero, limit, one)\n"
            "at = Add(steps, x1)\n"
        )
    else:
        text += "at = Identity(x1)\n"
    text += (
        f"{axes_text('beside', [-2])} cosines = Gather(x2, at) sines = Gather(x3, at)\n"
        "c = Unsqueeze(cosines, beside) s = Unsqueeze(sines, beside)\n"
    )
    if part:
        text += (
            f"{axes_text('n0', [0])} {axes_text('n1', [part])} {axes_text('n2', [2**31 - 1])}\n"
            f"{axes_text('last', [-1])} r = Slice(h, n0, n1, last) kept = Slice(h, n1, n2, last)\n"
        )
    else:
        text += "r = Identity(h)\n"
    if call.get("interleaved", 0):
        text += (
            f"{axes_text('pairs', [0, 0, 0, -1, 2])} p = Reshape(r, pairs)\n"
            "a5, b5 = Split<axis = -1, num_outputs = 2>(p)\n"
            f"{axes_text('end', [-1])} a = Squeeze(a5, end) b = Squeeze(b5, end)\n"
        )
    else:
        text += "a, b = Split<axis = -1, num_outputs = 2>(r)\n"
    text += (
        "ac = Mul(a, c) bs = Mul(b, s) bc = Mul(b, c) as = Mul(a, s)\n"
        "low = Sub(ac, bs) high = Add(bc, as)\n"
    )
    if call.get("interleaved", 0):
        text += (
            "low5 = Unsqueeze(low, end) high5 = Unsqueeze(high, end)\n"
            f"both = Concat<axis = -1>(low5, high5) {axes_text('flat', [0, 0, 0, -1])}\n"
            "turned = Reshape(both, flat)\n"
        )
    else:
        text += "turned = Concat<axis = -1>(low, high)\n"
    text += "z = Concat<axis = -1>(turned, kept)\n" if part else "z = Identity(turned)\n"
    if rank == 4:
        return text + "y0 = Transpose<perm = [0, 2, 1, 3]>(z)"
    return f"{text} {axes_text('joined', [0, 0, -1])} y0 = Reshape(z, joined)"


# ---- parts


def _refuse(call):
    for k, name in _UNREAD[call.node.op_type].items():
        if call.has(k):
            raise call.fail(f"{name} is not read")
    if call.get("past_present_share_buffer", 0):
        raise call.fail("a buffer that past and present share is not read")


def _heads(call, x):
    """Text that gives the heads of x [B, T, N D] as [B, N, T, D]."""
    count = call.get("num_heads", 0)
    if count < 1:
        raise call.fail(f"num_heads is {count}")
    return (
        f"{axes_text(f'{x}_split', [0, 0, count, -1])} {x}_apart = Reshape({x}, {x}_split)\n"
        f"{x}_heads = Transpose<perm = [0, 2, 1, 3]>({x}_apart)\n"
    )


def _with_past(there, past_k, past_v):
    if there:
        return (
            f"keys = Concat<axis = 2>({past_k}, k_heads)\n"
            f"values = Concat<axis = 2>({past_v}, v_heads)\n"
        )
    return "keys = Identity(k_heads) values = Identity(v_heads)\n"


def _scores(call, mask, added):
    """Text that gives y0 of q_heads, keys and values."""
    scale = call.get("scale", 0.0)
    text = "k_turned = Transpose<perm = [0, 1, 3, 2]>(keys) raw = MatMul(q_heads, k_turned)\n"
    if scale:
        text += f"{number_text('scale', scale, 'raw')} s0 = Mul(raw, scale)\n"
    else:
        text += (
            "depth = Shape<start = 3, end = 4>(q_heads) deep = CastLike(depth, raw)\n"
            "root = Sqrt(deep) s0 = Div(raw, root)\n"
        )
    text += _masked(call, mask) if call.has(mask) else "s1 = Identity(s0)\n"
    text += f"s2 = Add(s1, x{added})\n" if call.has(added) else "s2 = Identity(s1)\n"
    if call.get("unidirectional", 0):
        text += (
            "columns = Shape<start = 3, end = 4>(s2) rows = Shape<start = 2, end = 3>(s2)\n"
            "square = Concat<axis = 0>(rows, columns) before = Sub(columns, rows)\n"
            "ones = ConstantOfShape<value = int32[1] {1}>(square)\n"
            f"{axes_text('none', [0])} past_rows = Squeeze(before, none)\n"
            "triangle = Trilu<upper = 0>(ones, past_rows) seen = Cast<to = 9>(triangle)\n"
            f"{number_text('lowest', -3.4e38, 's2')} s3 = Where(seen, s2, lowest)\n"
        )
    else:
        text += "s3 = Identity(s2)\n"
    return text + (
        "weights = Softmax<axis = -1>(s3) mixed = MatMul(weights, values)\n"
        f"together = Transpose<perm = [0, 2, 1, 3]>(mixed) {axes_text('merged', [0, 0, -1])}\n"
        "y0 = Reshape(together, merged)\n"
    )


def _masked(call, k):
    """Text that gives s1 of s0 and a mask: 1 where keys are read, or how many are, int32.

    It is [B, L], [B, T, L] or [B].
    """
    rank = call.rank(k, "its sizes decide what a mask means")
    number = call.get("mask_filter_value", -10000.0)
    text = f"x_mask = Cast<to = 7>(x{k}) nothing = Constant<value_int = 0>()\n"
    if rank == 1:
        mask, x = call.dims[k], call.dims[0]
        if mask is None or x is None or mask[0] != x[0]:
            raise call.fail("a mask of starts and ends, or of unknown sizes, is not read")
        text += (
            f"keys_n = Shape<start = 3, end = 4>(s0) {axes_text('no', [0])}\n"
            "limit = Squeeze(keys_n, no) one = Constant<value_int = 1>()\n"
            "places = Range(nothing, limit, one)\n"
            f"{axes_text('up', [1, 2, 3])} ends = Unsqueeze(x_mask, up)\n"
            "hidden = GreaterOrEqual(places, ends)\n"
        )
    elif rank in (2, 3):
        up = [1, 2] if rank == 2 else [1]
        text += f"{axes_text('up', up)} m4 = Unsqueeze(x_mask, up) hidden = Equal(m4, nothing)\n"
    else:
        raise call.fail(f"a mask of {rank} axes is not read")
    return (
        f"{text} {number_text('filled', number, 's0')} {number_text('open', 0.0, 's0')}\n"
        "addend = Where(hidden, filled, open) s1 = Add(s0, addend)\n"
    )
