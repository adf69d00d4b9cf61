"""Pages of the documentation site that are made from the code: `build_site.py` writes them among the others.

The API from docstrings, the command line from the commands themselves, cards from what they describe, file formats
from the modules that define them. It takes griffe, of the extra `docs`, beside the base install.
"""

from reference.api import api_pages
from reference.audit_family_cards import audit_family_pages
from reference.commands import command_pages
from reference.expert_cards import expert_card_pages
from reference.file_formats import file_format_pages
from reference.reward_cards import reward_card_pages
from reference.suite_cards import suite_card_pages


def reference_pages() -> dict[str, str]:
    """Path on the site -> Markdown that begins with its title, in the order of the navigation."""
    return {
        **api_pages(),
        **command_pages(),
        **reward_card_pages(),
        **expert_card_pages(),
        **suite_card_pages(),
        **audit_family_pages(),
        **file_format_pages(),
    }
