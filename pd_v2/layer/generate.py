"""Generation: beam search over a step that gets the word it gave last."""

from dataclasses import replace
from functools import cached_property

import numpy as np

import pd_core as pd
from pd_core.graph.node import refined
from pd_core.ops.mode import in_mode

from .. import build
from ..attr import ParameterAttribute
from ..config_base import Layer, named_value
from ..formats.proto import LayerConfig
from .dense import embedding
from .group import Group, StaticInput, building, layers_of, memory, record_of
from .ids import eos, max_id

_WORD = "__beam_search_predict__"


class BaseGeneratedInput:
    """The input of a generating step that comes from the previous step."""

    def __init__(self):
        self.bos_id = self.eos_id = None

    def before_real_step(self):
        """Return the layer that the step gets."""
        raise TypeError(f"{type(self).__name__} does not say what it gives")

    def after_real_step(self, input):
        """Return the layer of generated ids for what the step returns, or a list of it and others.

        The ids are the `max_id` of a layer of the step. The others become results of the search.
        """
        raise TypeError(f"{type(self).__name__} does not say what it takes")


class GeneratedInput(BaseGeneratedInput):
    """The embedding of the last word, from the table of the training network.

    The parameter `embedding_name` is a table of `size` words, `embedding_size` numbers each.
    """

    def __init__(self, size, embedding_name, embedding_size):
        super().__init__()
        self.size, self.embedding_name = size, embedding_name
        self.embedding_size = embedding_size

    def before_real_step(self):
        """Return the embedding of the last word, which a memory holds."""
        word = memory(name=_WORD, size=self.size, boot_with_const_id=self.bos_id)
        return embedding(
            input=word,
            size=self.embedding_size,
            param_attr=ParameterAttribute(name=self.embedding_name),
        )

    def after_real_step(self, input):
        """Return the most probable word, and what the step returns besides the probabilities."""
        probabilities, *others = input if isinstance(input, (list, tuple)) else [input]
        return [max_id(input=probabilities, name=_WORD), *others]


class Generator(Group):
    """A group whose rows are the candidate paths of all samples, `beam_size` each."""

    kind = "beam_search"

    def __init__(self, name, beam_size):
        super().__init__(name, False, ())
        self.beam_size, self.samples = beam_size, None
        self.copies = {}  # of the sequences of samples for each path
        self.evaluated = None  # no evaluators: the values of a step are not kept

    def mode(self):
        """Return the context in which the step is built: for inference, also in training."""
        return in_mode(False)

    @cached_property
    def rows(self):
        """The symbolic batch size inside the step."""
        return f"{self.name}.paths"

    def whole(self, x):
        """Return value and levels of a layer of samples, repeated for each path."""
        sequences = x.sequences
        values = x if sequences is None else sequences.lengths
        if self.samples is None:
            self.samples = pd.size_of(values, 0)
        if sequences is None:
            return pd.gather(x, self._sample), ()
        if sequences not in self.copies:  # once, so that layers of equal sequences can be combined
            self.copies[sequences] = pd.Segments(pd.gather(sequences.lengths, self._sample))
        copies = self.copies[sequences]
        first = pd.gather(pd.gather(sequences.starts, self._sample), copies.owner)
        return pd.gather(x, first + copies.position), (copies,)

    @cached_property
    def _sample(self):
        """The sample of each path."""
        return refined(pd.arange(self._paths) // self.beam_size, (self.rows,))

    def zeros(self, *sizes, dtype="float32"):
        """Return the default initial state of a memory: zeros."""
        shape = pd.concat([self._paths, np.array(sizes, np.int64)])
        return refined(pd.expand(pd.constant(0, dtype), shape), (self.rows, *sizes))

    def ids(self, value):
        """Return initial ids, or None before the number of samples is known.

        The memory of words needs none: the search itself starts the paths.
        """
        return None if self.samples is None else super().ids(value)

    @property
    def _paths(self):
        return self._known(self.samples) * self.beam_size

    def _known(self, value):
        """Return a value; GraphError if it is None because the number of samples is not known."""
        if value is None:
            raise pd.GraphError(
                f"beam_search {self.name!r}: nothing says how many samples there are\n"
                "  hint: give a StaticInput, or a memory with a boot_layer before the others"
            )
        return value

    def search(self, probabilities, bos_id, eos_id, max_length):
        """Return the pd beams: the best paths of each sample."""
        word, *others = sorted(
            self.step.states, key=lambda s: s.placeholder.name != f"{_WORD}+delay1"
        )
        self.step.states = [word, *others]
        targets = [probabilities, *(s.new for s in others)]

        def step(words, states):
            scores, *new_states = self.step.at(targets, [words, *states])
            return scores, new_states

        init = [self._known(s.init) for s in others]
        samples = self._known(self.samples)
        return pd.beam_search(step, init, samples, bos_id, eos_id, self.beam_size, max_length)

    def along(self, others, beams, results, bos_id):
        """Return (value, levels) of layers of the step, at each word of the results.

        There are `results` sequences per sample, as far as there are so many paths. The steps are
        computed again, now that the words are known.
        """
        self.sort_layers()
        word, *states = self.step.states
        lengths = beams.best_lengths(results)
        paths = pd.Segments(refined(pd.reshape(lengths, [-1]), (self.rows,)))
        words, level = beams.rows(results)
        words = refined(words, (paths.tokens,))
        before = pd.gather(words, pd.maximum(paths.numbers - 1, 0))
        before = pd.where(pd.equal(paths.position, 0), np.int64(bos_id), before)
        step = replace(self.step, inputs={word.placeholder: before}, states=states)
        if results > 1:
            found = pd.squeeze(pd.nonzero(paths.lengths), [0])
            level = pd.Segments(pd.gather(paths.lengths, found), paths.tokens)
        self.levels = (paths,)
        values = pd.unroll(step, [self.padded(x) if x.levels else x for x in others], paths)
        for x, value in zip(others, values, strict=True):
            if x.levels:
                value, inner = self.packed(x, value)
                yield value, (level, inner)
            else:
                yield value, (level,)

    def finish(self, word, end, others, bos_id, eos_id, max_length, results):
        """Close the group and run the search; return the layers of `results` paths per sample.

        The first holds the words, and then there is one for each of the others.
        """
        self.link([word, end, *others])
        beams = self.search(word.parents[0], bos_id, eos_id, max_length)
        generator = self.config.generator
        generator.max_num_frames, generator.eos_layer_name = max_length, end.full_name
        generator.num_results_per_sample, generator.beam_size = results, self.beam_size
        found = [_outside(self, word, end, beams, results)]
        if others:
            values = self.along(others, beams, results, bos_id)
            found += [_other_outside(self, x, *v) for x, v in zip(others, values, strict=True)]
        return found


def beam_search(
    step, input, bos_id, eos_id, beam_size, max_length=500, name=None, num_results_per_sample=None
):
    """Generate the most probable sequences of words from `bos_id` to `eos_id`, by beam search.

    `input` holds StaticInputs and one GeneratedInput; the step gets any other argument as it is.
    The first layer that the step returns holds the probability of each word. A single result per
    sample is its words; several are [length, words…, -1] one after the other, with their ln p as
    `prob`. If the step returns more layers, there is a list of results: the words, and for each of
    those layers a sequence per path, with a row or a sub-sequence for each word. Layers of the step
    share parameters with a recurrent_group of the same name.
    """
    name = name or build.current().next_name("beam_search")
    inputs = list(input) if isinstance(input, (list, tuple)) else [input]
    generated = _generated(name, inputs)
    generated.bos_id, generated.eos_id = bos_id, eos_id
    results = _count_of_results(name, beam_size, num_results_per_sample)
    group = Generator(name, beam_size)
    with building(group):
        outputs = step(*[_argument(group, x) for x in inputs])
        layers_of(group, outputs)
        word, *others = layers_of(group, generated.after_real_step(outputs))
        if word.config.type != "maxid":
            raise pd.GraphError(
                f"beam_search {name!r}: the words are the max_id of a layer, {word.name!r} is not"
            )
        word.config.beam_size = beam_size
        end = eos(input=word, eos_id=eos_id, name=f"__{name}_eos_layer__")
    found = group.finish(word, end, others, bos_id, eos_id, max_length, results)
    return found if others else found[0]


def _argument(group, x):
    """Return what the step gets for an input."""
    if isinstance(x, StaticInput):
        return group.static(x.input, build.current().next_name("memory"))
    return x.before_real_step() if isinstance(x, BaseGeneratedInput) else x


def _outside(group, word, end, beams, results):
    """Return the layer of the results, outside of the group."""
    config = LayerConfig(name=build.current().full_name(_WORD), type="data", active_type="")
    config.size = word.size
    group.config.out_links.add(layer_name=word.full_name, link_name=config.name)
    prob = column = None
    if results == 1:
        ids, level = beams.rows(1)
    else:
        ids, column, level = beams.framed(results)
        prob = pd.slice(beams.scores, [0], [results], [1])
    out = named_value(
        ids,
        _WORD,
        Layer,
        layer_type=word.layer_type,
        parents=[word, end, group.layer],
        size=word.size,
        config=config,
        reverse=False,
        levels=(level,),
        prob=prob,
        column=column,
    )
    build.current().add(out)
    return out


def _other_outside(group, x, value, levels):
    """Return the layer outside of the group for another layer that the step returns."""
    config = LayerConfig(name=build.current().full_name(x.name), type="data", active_type="")
    config.size = x.size
    group.config.out_links.add(layer_name=x.full_name, link_name=config.name)
    record = record_of(x, config) | {"parents": [x, group.layer], "reverse": False}
    out = named_value(value, x.name, Layer, **record, levels=levels)
    build.current().add(out)
    return out


def _generated(name, inputs):
    """Return the only GeneratedInput."""
    generated = [x for x in inputs if isinstance(x, BaseGeneratedInput)]
    layers = [x for x in inputs if isinstance(x, Layer)]
    if layers:
        raise TypeError(
            f"beam_search {name!r}: a layer comes in a StaticInput, {layers[0].name!r} does not"
        )
    if len(generated) != 1:
        raise pd.GraphError(f"beam_search {name!r}: {len(generated)} GeneratedInputs, not one")
    return generated[0]


def _count_of_results(name, beam_size, num_results):
    if beam_size < 1:
        raise ValueError(f"beam_search {name!r}: beam_size {beam_size} is below 1")
    results = beam_size if num_results is None else num_results
    if not 1 <= results <= beam_size:
        raise ValueError(f"beam_search {name!r}: {results} results per sample of {beam_size} beams")
    return results
