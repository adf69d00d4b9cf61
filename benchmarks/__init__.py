"""Offline work with rewards: the command line `editcritic`, rankings with contact sheets, replays, golden cases, demo.

`cli.py` holds the commands and nothing else; each of them stands on a module that Python code can use as well. This
package may import all others of ours; none of them imports it.
"""
