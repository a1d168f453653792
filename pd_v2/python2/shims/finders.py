"""Modules that find and load modules, which are translated if they belong to the program."""

from pd_v2.python2.shims.views import overrides, reload


@overrides("importlib")
def _importlib(_):
    return {"reload": reload}  # its submodules are viewed as below


@overrides("importlib.machinery")
def _machinery(_):
    from pd_v2.python2.importer import LocalLoader

    return {"SourceFileLoader": LocalLoader}


@overrides("importlib.util")
def _util(util):
    from pd_v2.python2.importer import loader_of

    def spec_from_file_location(name, location=None, **keywords):
        if location is not None and str(location).endswith(".py"):
            keywords.setdefault("loader", loader_of(name, str(location)))
        return util.spec_from_file_location(name, location, **keywords)

    return {"spec_from_file_location": spec_from_file_location}


@overrides("pkgutil")
def _pkgutil(_):
    def get_loader(module_or_name):
        name = getattr(module_or_name, "__name__", module_or_name)
        return find_loader(name)

    def find_loader(fullname):
        from importlib.util import find_spec

        spec = find_spec(fullname)
        return spec and spec.loader

    return {"find_loader": find_loader, "get_loader": get_loader}


@overrides("zipimport")
def _zipimport(_):
    from pd_v2.python2.importer import Archive

    return {"zipimporter": Archive}
