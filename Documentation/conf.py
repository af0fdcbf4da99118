# SPDX-License-Identifier: GPL-2.0
"""How Sphinx makes HTML of the documents: `make docs`.

The reference of the ABI is in the comments of abi/kvm_perf.h. The kernel's own extension
and scripts/kernel-doc, of the kernel source that KERNEL_SOURCE names, take it from there.
"""
import os
import sys

tree = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
kernel = os.environ["KERNEL_SOURCE"]
sys.path.insert(0, os.path.join(kernel, "Documentation", "sphinx"))

project = "Paravirtual performance events for KVM guests"
extensions = ["kerneldoc"]
kerneldoc_bin = os.path.join(kernel, "scripts", "kernel-doc")
kerneldoc_srctree = tree
source_suffix = {".rst": "restructuredtext", ".txt": "restructuredtext"}
root_doc = "paravirt-perf"
exclude_patterns = ["results"]
nitpicky = True
# Types of C, and structs of the kernel's, are not described here.
nitpick_ignore_regex = [(r"c:.*", r"__.*|perf_event_.*")]
highlight_language = "none"
html_theme = "alabaster"
html_show_copyright = False
