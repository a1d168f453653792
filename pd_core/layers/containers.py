"""Containers: layers one after another, in a list or in a dict."""

from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any, Self, overload

from .function import Lambda
from .layer import Layer

Function = Callable[..., Any]


class _Numbered(Layer):
    """Layers under the names "0", "1", … in order."""

    _only_holds = True
    _takes_functions = False

    def append(self, layer: Layer | Function) -> Self:
        """Add a layer at the end, and return the container."""
        number = len(self)
        while str(number) in self._layers:  # in a part of another container
            number += 1
        setattr(self, str(number), _checked(self, layer))
        return self

    def __len__(self) -> int:
        return len(self._layers)

    def __iter__(self) -> Iterator[Layer]:
        return iter(list(self._layers.values()))

    @overload
    def __getitem__(self, index: int) -> Layer: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Layer | Self:
        """Return a layer, or a container of the same layers for a slice."""
        if isinstance(index, slice):
            return self._part(list(self._layers.items())[index])
        return list(self._layers.values())[index]

    def __setitem__(self, index: int, layer: Layer | Function) -> None:
        setattr(self, list(self._layers)[index], _checked(self, layer))

    def _part(self, pairs):
        raise NotImplementedError(f"{type(self).__name__} does not define its slices")


class Sequential(_Numbered):
    """Layers one after another: each gets the output of the one before it.

    They are named "0", "1", …, or by the keys of a dict. A function of Variables, such as
    `pd.relu`, is made a `Lambda`. A slice is a Sequential of the same layers under the same names.
    """

    _takes_functions = True

    def __init__(
        self, *layers: Layer | Function | Mapping[str, Layer | Function], name: str | None = None
    ) -> None:
        super().__init__(name)
        if len(layers) == 1 and isinstance(layers[0], Mapping):
            for key, layer in layers[0].items():
                setattr(self, key, _checked(self, layer))
        else:
            for each in layers:
                self.append(_checked(self, each))

    def forward(self, *inputs: Any) -> Any:
        """Return the output of the last layer; the first one gets the inputs."""
        for layer in self._layers.values():
            inputs = (layer(*inputs),)
        return inputs[0] if len(inputs) == 1 else inputs

    def _part(self, pairs):
        return type(self)(dict(pairs))


class LayerList(_Numbered):
    """A list of layers, named "0", "1", …; a slice is a LayerList of the same layers."""

    def __init__(self, layers: Iterable[Layer] = (), name: str | None = None) -> None:
        super().__init__(name)
        self.extend(layers)

    def extend(self, layers: Iterable[Layer]) -> Self:
        """Add layers at the end, and return the list."""
        for layer in layers:
            self.append(layer)
        return self

    def _part(self, pairs):
        return type(self)([layer for _, layer in pairs])


class LayerDict(Layer):
    """A dict of layers; the keys are their names."""

    _only_holds = True

    def __init__(self, layers: Mapping[str, Layer] | None = None, name: str | None = None) -> None:
        super().__init__(name)
        for key, layer in (layers or {}).items():
            self[key] = layer

    def __getitem__(self, key: str) -> Layer:
        return self._layers[key]

    def __setitem__(self, key: str, layer: Layer) -> None:
        if key not in self._layers and hasattr(self, key):
            raise ValueError(f"LayerDict: {key!r} is an attribute, and cannot be a key")
        setattr(self, key, _checked(self, layer))

    def __delitem__(self, key: str) -> None:
        if key not in self._layers:
            raise KeyError(key)
        delattr(self, key)

    def __contains__(self, key: object) -> bool:
        return key in self._layers

    def __len__(self) -> int:
        return len(self._layers)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._layers))

    def keys(self) -> KeysView[str]:
        """Return the names of the layers."""
        return self._layers.keys()

    def values(self) -> ValuesView[Layer]:
        """Return the layers."""
        return self._layers.values()

    def items(self) -> ItemsView[str, Layer]:
        """Return (name, layer) pairs."""
        return self._layers.items()


def _checked(container, layer):
    if isinstance(layer, Layer):
        return layer
    is_class = isinstance(layer, type) and issubclass(layer, Layer)
    if getattr(container, "_takes_functions", False) and callable(layer) and not is_class:
        return Lambda(layer)
    text = f"{type(container).__name__} takes layers, not {layer!r}"
    raise TypeError(text + f": call it, {layer.__name__}()" if is_class else text)
