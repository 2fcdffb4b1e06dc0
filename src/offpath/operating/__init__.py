"""The operator's view: documents of what there is, and the reasons why something waits.

The command line, the dashboard's pages and its JSON are fed from here, so they cannot disagree.
"""
