"""`python -m attncli` is the same program as `attncli`."""

import sys

from attncli.cli import main

sys.exit(main())
