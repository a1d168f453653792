"""Rewrites `except E, target:` as `except E as name:`."""

from fissix.fixer_base import BaseFix
from fissix.fixer_util import Name

from pd_v2.python2.fixers.target_names import name_of_target


class FixExceptTarget(BaseFix):
    BM_compatible = True
    PATTERN = "except_clause< 'except' any comma=',' target=any >"

    def transform(self, node, results):
        comma, target = results["comma"], results["target"]
        comma.replace(Name("as", prefix=" "))
        target.replace(name_of_target(target, " "))
