"""The account that clients of ElevenLabs ask for. There are no accounts here, and nothing costs anything."""

from __future__ import annotations

import asyncio
from typing import Any

from rhapsode.serve.service import Service

NO_LIMIT = 2**31 - 1
"""ElevenLabs' clients subtract what was used from the limit, so there has to be one."""


async def describe_subscription(service: Service) -> dict[str, Any]:
    """Returns a subscription without a limit but that of uploaded voices."""
    uploaded = len(await asyncio.to_thread(service.store.list))
    return {
        "tier": "self-hosted",
        "status": "active",
        "character_count": 0,
        "character_limit": NO_LIMIT,
        "max_credit_limit_extension": 0,
        "can_extend_character_limit": False,
        "allowed_to_extend_character_limit": False,
        "next_character_count_reset_unix": None,
        "voice_slots_used": uploaded,
        "voice_limit": service.config.max_voices,
        "voice_add_edit_counter": 0,
        "professional_voice_slots_used": 0,
        "professional_voice_slots_used_in_workspace": 0,
        "professional_voice_limit": 0,
        "can_extend_voice_limit": False,
        "can_use_instant_voice_cloning": service.info.takes_recordings,
        "can_use_professional_voice_cloning": False,
        "has_open_invoices": False,
        "open_invoices": [],
        "currency": None,
        "current_overage": {"amount": "0", "currency": "usd"},
        "billing_period": None,
        "character_refresh_period": None,
    }


async def describe_user(service: Service) -> dict[str, Any]:
    """Returns the same user for every key: who asks is not told."""
    return {
        "user_id": "rhapsode",
        "workspace_id": "rhapsode",
        "first_name": None,
        "subscription": await describe_subscription(service),
        "seat_type": "workspace_member",
        "is_new_user": False,
        "is_onboarding_completed": True,
        "is_onboarding_checklist_completed": True,
        "can_use_delayed_payment_methods": False,
        "is_api_key_hashed": False,
        "xi_api_key": None,
        "created_at": 0,
    }
