"""Entry point for spark-submit: `spark-submit …/amqproxy/cli/pipeline/__main__.py run captures/ --tables DIR`."""

import sys

from amqproxy.cli import main

sys.argv[1:1] = ["pipeline"]
main()
