"""What a batch feeds to a network: arrays, and the sizes of its images."""


class Feeds(dict):
    """{Variable: array} of a batch, and the `sizes` of its images.

    These are {name: (columns, height, width)} of data layers whose images have another size than
    the network was built for.
    """

    def __init__(self, entries=(), sizes=None):
        super().__init__(entries)
        self.sizes = sizes or {}


def feed_dict(layers, slots):
    """Return Feeds from {name: data layer} and {name: Slot}."""
    feeds = Feeds()
    for name, slot in slots.items():
        x = layers[name]
        feeds.update(zip(x.inputs, slot.arrays, strict=True))
        size = other_size(slot, x.size, x.read_as)
        if size is not None:
            feeds.sizes[name] = size
    return feeds


def other_size(slot, width, read_as):
    """Return (columns, height, width) of images that are not what layers take them for, or None.

    `read_as` is None where the size is declared. As in 2017, rows of one axis are images of the
    size that the network was built for.
    """
    if slot.image_size is None or read_as is None:
        return None
    height_and_width, columns = tuple(slot.image_size), slot.value.shape[1]
    if columns == width and read_as <= {height_and_width}:
        return None
    return columns, *height_and_width
