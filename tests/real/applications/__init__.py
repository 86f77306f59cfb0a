"""Applications of other languages, written for RabbitMQ 3: each sends itself a greeting, and prints it.

Spring Boot comes from Maven Central as `spring/jars.txt` pins it; PHP and Elixir come from Debian with their libraries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.real.class_path import class_path
from tests.real.rabbitmq_installation import SYSTEM
from tests.real.require import missing, require

HERE = Path(__file__).parent
PHP_LIBRARIES = Path("/usr/share/php")
QUICK_START = "-XX:TieredStopAtLevel=1"
SPRING = ("--spring.main.banner-mode=off", "--logging.pattern.console=%m%n")


@dataclass(frozen=True)
class Application:
    """An application whose greeting and queue have its name; `command` starts it for a port."""

    title: str
    name: str
    command: Callable[[int], list[str]]

    def __str__(self) -> str:
        return self.title

    @property
    def greeting(self) -> str:
        """The line that it prints."""
        return f"hello from {self.name}"


def _spring(profile: str, port: int) -> list[str]:
    options = [*SPRING, f"--spring.rabbitmq.port={port}", f"--spring.profiles.active={profile}"]
    java = [require("java", package="openjdk-17-jre-headless"), QUICK_START]
    return [*java, "-cp", class_path(HERE / "spring"), "news.Application", *options]


def _php(script: str, autoload: str, packages: str, port: int) -> list[str]:
    php = require("php", package="php-cli")
    if not (PHP_LIBRARIES / autoload).exists():
        missing(autoload, f"apt-get install {packages}")
    return [php, str(HERE / script), str(port)]


def _elixir(port: int) -> list[str]:
    if not SYSTEM.plugins:
        missing("RabbitMQ's Erlang client", "apt-get install rabbitmq-server")
    return ["env", f"ERL_LIBS={SYSTEM.plugins}", require("elixir"), str(HERE / "queue_declare.exs"), str(port)]


php_amqplib = partial(_php, "php_amqplib.php", "PhpAmqpLib/autoload.php", "php-amqplib")
symfony_messenger = partial(
    _php,
    "symfony_messenger.php",
    "Symfony/Component/Messenger/Bridge/Amqp/autoload.php",
    "php-amqp php-symfony-amqp-messenger",
)

APPLICATIONS = (
    Application("Spring Boot 2.7, anonymous queue", "spring", partial(_spring, "anonymous")),
    Application("Spring Boot 2.7, transient queue", "spring", partial(_spring, "transient")),
    Application("php-amqplib", "php-amqplib", php_amqplib),
    Application("Symfony Messenger", "messenger", symfony_messenger),
    Application("Elixir", "elixir", _elixir),
)
