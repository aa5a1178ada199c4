"""Measurements that somebody else sends as one file: checked, predicted blind, kept and shown.

`take_in.py` has the steps in their order. A file is untrusted: `archive.py` unpacks nothing that a
bundle doesn't have, and nothing in it is executed. The prediction is written before any measured
number is looked at; `plausible.py` then refuses what no machine can have done.
"""
