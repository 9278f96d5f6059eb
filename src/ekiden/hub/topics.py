"""Names of topics, checked before anything is looked for under them."""

import re

from ekiden.kernel.errors import Invalid
from ekiden.kernel.limits import STREAM_TOPICS_MAX

_TOPIC = re.compile(
    r"team|access|channels|directory|(?:session|host|inbox):[a-z]{3}_[0-9a-z]{20}"
    r"|(?:channel|private):[a-z0-9][a-z0-9._-]{0,79}"
)


def read_topics(text: str) -> tuple[str, ...]:
    """The topics in `team,session:ses_…`, each once, in order.

    Raises:
        Invalid: if there is none, there are more than `STREAM_TOPICS_MAX`, or one is no topic's name.
    """
    topics = tuple(dict.fromkeys(topic for topic in text.split(",") if topic))
    if not 0 < len(topics) <= STREAM_TOPICS_MAX:
        raise Invalid(f"A stream has 1 to {STREAM_TOPICS_MAX} topics.", hint="For example ?topics=team")
    for topic in topics:
        if _TOPIC.fullmatch(topic) is None:
            raise Invalid(f"{topic[:60]!r} is not the name of a topic.")
    return topics
