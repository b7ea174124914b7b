"""The folder of packages, as a package: each is imported as fairhand_packages.NAME.

Nothing else stands here: a package may be called anything.
"""

import os

__path__ = [os.environ.get("FAIRHAND_PACKAGES", ".")]
