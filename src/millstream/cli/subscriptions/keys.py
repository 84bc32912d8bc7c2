"""`millstream keys`: the keys that sign webhooks."""

from millstream.cli import targets
from millstream.cli.output import OutputFormat, StandardOutput
from millstream.cli.subscriptions.options import subscriptions_of
from millstream.cli.targets import Profile, Token, Url


def rotate(
    output_format: OutputFormat = None, url: Url = None, token: Token = None, profile: Profile = None
) -> None:
    """Sign webhooks with a new key. Receivers find it by themselves; the old one stays published."""
    made = subscriptions_of(targets.server(url, token, profile)).rotate_keys()
    StandardOutput(output_format).result(
        f"Webhooks are signed with {made.kid} from now on", {"kid": made.kid, "retired": made.retired}
    )
