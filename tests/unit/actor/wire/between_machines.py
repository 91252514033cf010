"""A plugin of pytest: actors reach each other as those of other machines do, by TCP, and UCX if ``CRATON_ACTOR_TRANSPORT`` says so."""

from __future__ import annotations

from craton.actor.wire import addresses

setattr(addresses, "local_name", lambda _address: "\0nobody is here")  # noqa: B010
setattr(addresses, "listen_unix", lambda _address: None)  # noqa: B010
