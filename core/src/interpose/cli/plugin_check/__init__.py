"""What ``interpose check-plugin`` looks at: a plugin's wheel, and what it does when it is loaded.

The plugin is never imported in this process. :mod:`.papers` to :mod:`.imports` read its files;
:mod:`.probe` runs in a process of its own, in the environment that :mod:`.places` gives it.
"""
