"""Catalogue of hosts and cloud instances, its schema, and capture of the host at hand."""

from .catalogue import list_hosts, load_host
from .instances import Instance, list_instances
from .schema import HostProfile
from .speed import HostSpeed

__all__ = ["HostProfile", "HostSpeed", "Instance", "list_hosts", "list_instances", "load_host"]
