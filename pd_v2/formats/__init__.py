"""The file formats of 2017: parameters, topologies and their protobuf messages."""
