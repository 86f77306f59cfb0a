"""`python -m amqproxy` is the command `amqproxy`."""

from amqproxy.cli import main

if __name__ == "__main__":
    main()
