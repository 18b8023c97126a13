# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# siw.sh - the iWARP driver, which Debian's kernels do not include.
