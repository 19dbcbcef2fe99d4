"""The vhosts in the .json files of the policy's policyDir."""

import os

from routerd.config.entities.schema import entity_type
from routerd.config.formats import json_file
from routerd.config.formats.source import ConfigError, Mistake, Section, camel_case, read, shown
from shm.contract.text import cause


def policy_sections(sections: list[Section], mistakes: list[Mistake]) -> list[Section]:
    """Return the sections in the directory that policy names; none without one."""
    for section in sections:
        found = entity_type(section.type)
        if found is None or found.name != "policy":
            continue
        for setting in section.block.settings:
            if camel_case(setting.name) == "policyDir" and isinstance(setting.value, str) and setting.value:
                place = Mistake(section.file, setting.line, "")
                return _directory(setting.value, place, mistakes)
    return []


def _directory(directory: str, place: Mistake, mistakes: list[Mistake]) -> list[Section]:
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(".json"))
    except (OSError, ValueError) as error:
        text = f"policy policyDir: {shown(directory)} cannot be read ({cause(error)}); give a directory of .json files"
        mistakes.append(Mistake(place.file, place.line, text))
        return []
    return [section for name in names for section in _file(os.path.join(directory, name), mistakes)]


def _file(file: str, mistakes: list[Mistake]) -> list[Section]:
    try:
        text = read(file, "give a .json file that the router may read", regular=True)
    except ConfigError as error:
        mistakes.extend(error.mistakes)
        return []
    sections = []
    for section in json_file.parse(text, file, mistakes):
        found = entity_type(section.type)
        if found is not None and found.name == "vhost":
            sections.append(section)
        else:
            text = f"{shown(section.type)} does not belong in policyDir; move it to the configuration file"
            mistakes.append(Mistake(file, section.line, text))
    return sections
