"""The module doctest, for examples in Python 2."""

import ast
import copy
import functools
import os

from pd_v2.python2.shims.printing import forget_space
from pd_v2.python2.shims.views import overrides


@overrides("doctest")
def _doctest(doctest):
    parser = _parser_class(doctest)()
    runner_class = _runner_class(doctest)

    def testmod(
        m=None, name=None, globs=None, verbose=None, report=True, optionflags=0, extraglobs=None,
        raise_on_error=False, exclude_empty=False,
    ):  # fmt: skip
        """Test the examples in the docstrings of a module, by default the main one."""
        import __main__

        module = m or __main__
        finder = doctest.DocTestFinder(parser=parser, exclude_empty=exclude_empty)
        names = {**_builtins(), **(extraglobs or {})}
        tests = finder.find(module, name or module.__name__, globs=globs, extraglobs=names)
        return _run_tests(tests, verbose, optionflags, raise_on_error, report)

    def testfile(
        filename, module_relative=True, name=None, package=None, globs=None, verbose=None,
        report=True, optionflags=0, extraglobs=None, raise_on_error=False, parser=parser,
        encoding="utf-8",
    ):  # fmt: skip
        """Test the examples in a file."""
        if module_relative and package is None:
            package = doctest._normalize_module(None, 2)
        text, path = doctest._load_testfile(filename, package, module_relative, encoding)
        names = {**_builtins(), **(globs or {}), **(extraglobs or {})}
        names.setdefault("__name__", "__main__")
        test = parser.get_doctest(text, names, name or os.path.basename(filename), path, 0)
        return _run_tests([test], verbose, optionflags, raise_on_error, report)

    def _run_tests(tests, verbose, optionflags, raise_on_error, report):
        kind = doctest.DebugRunner if raise_on_error else runner_class
        runner = kind(verbose=verbose, optionflags=optionflags)
        for test in tests:
            runner.run(test)
        if report:
            runner.summarize()
        return doctest.TestResults(runner.failures, runner.tries)

    return {
        "DocTestFinder": functools.partial(doctest.DocTestFinder, parser=parser),
        "DocTestParser": type(parser),
        "DocTestRunner": runner_class,
        "testfile": testfile,
        "testmod": testmod,
    }


def _builtins():
    """Return the namespace of translated examples."""
    from pd_v2.python2.namespace import builtins_of
    from pd_v2.python2.translate import parse

    return {"__builtins__": builtins_of(parse("", "<doctest>"))}


def _parser_class(doctest):
    class DocTestParser(doctest.DocTestParser):
        """Parser that translates the examples."""

        def get_examples(self, string, name="<string>"):
            return [part for part in self.parse(string, name) if isinstance(part, doctest.Example)]

        def parse(self, string, name="<string>"):
            parts = super().parse(string, name)
            for part in parts:
                if isinstance(part, doctest.Example):
                    part.original, part.source = part.source, _translated(part.source)
            return parts

    return DocTestParser


def _translated(source):
    from pd_v2.python2.translate import parse

    try:
        tree = parse(source, "<doctest>").tree
    except SyntaxError:
        return source  # doctest reports it
    if len(tree.body) > 1:  # more than the one statement that doctest runs at a time
        tree = ast.fix_missing_locations(ast.If(ast.Constant(True), tree.body, []))
    return ast.unparse(tree) + "\n"


def _runner_class(doctest):
    def with_original(method):
        def report(self, out, test, example, *args):
            forget_space()  # the output of each example is compared alone
            return method(self, out, test, _original(example), *args)

        return report

    names = ("report_failure", "report_start", "report_success", "report_unexpected_exception")
    methods = {name: with_original(getattr(doctest.DocTestRunner, name)) for name in names}
    return type("DocTestRunner", (doctest.DocTestRunner,), methods)


def _original(example):
    """Return an example with its source before the translation, for reports."""
    original = copy.copy(example)
    original.source = getattr(example, "original", example.source)
    return original
