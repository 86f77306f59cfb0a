"""The dashboard as people see it: its page in Chromium, in front of a proxy with real clients.

stage         a proxy with the integrated broker and its dashboard
traffic       clients of it
watched_page  a page that is to complain of nothing
screens       what there is on it
"""
