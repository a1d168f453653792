"""`python -m pd_v2 export`: a network and its parameters as one ONNX file."""

import argparse
import importlib.util
import os
import sys

import onnx

import pd_core as pd

from . import build
from .config_base import Layer
from .described.stored_network import model_of, read_stored
from .formats.topology_file import building
from .parameters import Parameters
from .program_name import print_error, program_name
from .topology import Topology


def main(argv):
    """Write the file and print its inputs and outputs, or the error of a file in one line."""
    options = _options(argv)
    try:
        parameters = Parameters.from_tar(options.parameters)
        if options.topology:
            model = export_topology(options.output, options.topology, parameters)
        else:
            model = export_script(options.output, options.script, options.layer, parameters)
    except (OSError, ValueError) as error:
        print_error(error, "export")
        return 1
    ends = [", ".join(v.name for v in vs) for vs in (model.graph.input, model.graph.output)]
    print(f"{options.output}: {' -> '.join(ends)}")
    return 0


def export_topology(path, topology, parameters):
    """Export a stored topology or a merged model; return the ONNX model."""
    with open(topology, "rb") as f:
        model = model_of(read_stored(f), parameters)
    with building(topology):
        onnx.checker.check_model(model, full_check=True)
    with pd.atomic_write(path) as f:
        f.write(model.SerializeToString())
    return model


def export_script(path, script, layers, parameters):
    """Export some layers of a script; return the ONNX model. See `script_layer`.

    The script is imported, so what is below `if __name__ == "__main__"` does not run.
    """
    module = _imported(script)
    outputs = [script_layer(module, layer) for layer in layers]
    return Topology(outputs).export_onnx(path, parameters)


def script_layer(module, text):
    """Return the layer with a name, or the value of an expression in the namespace of a script."""
    layers = build.current().layers
    if text in layers:
        return layers[text]
    try:
        layer = eval(text, vars(module))  # noqa: S307  of the caller's own script
    except (NameError, SyntaxError) as error:
        raise ValueError(f"--layer {text}: {error}; {_listed(module, layers)}") from None
    if not isinstance(layer, Layer):
        found = f"{layer!r}, no layer"
        raise ValueError(f"--layer {text} is {found}; {_listed(module, layers)}")
    return layer


def _listed(module, layers):
    return f"the layers of {module.__file__} are {', '.join(layers) or 'none'}"


def _options(argv):
    parser = argparse.ArgumentParser(
        prog=program_name("export"),
        description="Write a network with its parameters as one ONNX file.",
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--topology", help="a file of serialize_for_inference, or a merged model")
    source.add_argument("--script", help="a program that defines the layers; it is imported")
    parser.add_argument(
        "--layer",
        action="append",
        help="with --script: an output, by its name or as an expression such as 'net(10)'; given "
        "several times, each is an output of the file, in this order",
    )
    parser.add_argument(
        "--parameters", required=True, help="a tar of Parameters.to_tar, compressed or not"
    )
    parser.add_argument("output", metavar="OUTPUT", help="the ONNX file")
    options = parser.parse_args(argv)
    if bool(options.script) != bool(options.layer):
        parser.error("--script and --layer go together")
    return options


def _imported(script):
    import pd_v2.as_paddle  # noqa: F401  makes `paddle` importable
    from pd_v2.python2 import importer

    path = os.path.realpath(script)
    open(path, "rb").close()
    folder, name = os.path.split(path)
    sys.path.insert(0, folder)
    importer.install_finder()
    name = os.path.splitext(name)[0]
    spec = importlib.util.spec_from_file_location(
        name, path, loader=importer.LocalLoader(name, path)
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
