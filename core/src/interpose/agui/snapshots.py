"""How MESSAGES_SNAPSHOT reconciles with the messages that are there.

Rules: AG-UI 1.1, processing, "Application". Messages keep their place by id, omitted ones go,
new ones follow in the snapshot's order. Activities and reasoning are often unknown to whoever
makes the snapshot, so they stay until a snapshot shows that it knows that role; a producer may
also declare which activity types it owns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ag_ui.core import MessagesSnapshotEvent

from interpose.agui.drafts import MessageDraft

_CLIENT_KEY = "@ag-ui/client"
_DECLARATION = "authoritativeActivityTypes"


def reconcile(
    drafts: Iterable[MessageDraft], snapshot: MessagesSnapshotEvent
) -> list[MessageDraft]:
    """Return the messages after ``snapshot``."""
    incoming = {message.id: message for message in snapshot.messages}
    roles = {message.role for message in snapshot.messages}
    kept: list[MessageDraft] = []
    for draft in drafts:
        message = incoming.pop(draft.id, None)
        if message is not None:
            kept.append(MessageDraft(message, seeded=draft.seeded))
        elif draft.role == "activity":
            if not _owns_activity(snapshot, draft, seen="activity" in roles):
                kept.append(draft)
        elif draft.role == "reasoning" and "reasoning" not in roles:
            kept.append(draft)
    return kept + [MessageDraft(message) for message in incoming.values()]


def _owns_activity(snapshot: MessagesSnapshotEvent, draft: MessageDraft, *, seen: bool) -> bool:
    """Tell whether leaving this activity out of the snapshot means that it is gone."""
    client = (snapshot.metadata or {}).get(_CLIENT_KEY)
    if not isinstance(client, Mapping) or _DECLARATION not in client:
        return seen
    owned = client[_DECLARATION]
    if owned is None:
        return True
    return isinstance(owned, list) and getattr(draft.message, "activity_type", None) in owned
