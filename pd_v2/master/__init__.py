"""The master of 2017's clusters, which distributes records of a dataset, within one process."""

from pd_v2.master.client import client, get_c_lib

__all__ = ["client", "get_c_lib"]
