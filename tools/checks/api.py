# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A crate's public interface as lines of text, from rustdoc's JSON.

One line for each thing that a program can name, sorted by names, so that a change of the interface is a change of lines. Rendered here, because
rustdoc has no such text itself; the order of fields of a struct is no part of it, that of the variants' values is.
"""

# What rustdoc of the pinned toolchain writes. Another version is not guessed at.
FORMAT_VERSIONS = {57}


class Unknown(Exception):
    """Something in the JSON that this does not render."""


def only(inner):
    """The one entry of a tagged value."""
    if isinstance(inner, str):
        return inner, None
    [(kind, value)] = inner.items()
    return kind, value


def generic_args(args):
    if not args:
        return ""
    kind, value = only(args)
    if kind == "angle_bracketed":
        words = [generic_arg(arg) for arg in value["args"]]
        for constraint in value["constraints"]:
            name = constraint["name"] + generic_args(constraint["args"])
            kind, bound = only(constraint["binding"])
            words.append(f"{name} = {term(bound)}" if kind == "equality" else f"{name}: {bounds(bound)}")
        return f"<{', '.join(words)}>" if words else ""
    if kind == "parenthesized":
        output = f" -> {shown(value['output'])}" if value["output"] else ""
        return f"({', '.join(map(shown, value['inputs']))}){output}"
    if kind == "return_type_notation":
        return "(..)"
    raise Unknown(kind)


def generic_arg(arg):
    kind, value = only(arg)
    return {"lifetime": lambda: value, "type": lambda: shown(value), "const": lambda: value["expr"], "infer": lambda: "_"}[kind]()


def term(value):
    kind, inner = only(value)
    return shown(inner) if kind == "type" else inner["expr"]


def path(value):
    return value["path"] + generic_args(value["args"])


def bounds(all_bounds):
    words = []
    for bound in all_bounds:
        kind, value = only(bound)
        if kind == "outlives":
            words.append(value)
        elif kind == "use":
            words.append(f"use<{', '.join(next(iter(one.values())) if isinstance(one, dict) else one for one in value)}>")
        elif kind == "trait_bound":
            modifier = {"none": "", "maybe": "?", "maybe_const": "~const "}[value["modifier"]]
            words.append(modifier + for_all(value["generic_params"]) + path(value["trait"]))
        else:
            raise Unknown(kind)
    return " + ".join(words)


def for_all(params):
    return f"for<{', '.join(param['name'] for param in params)}> " if params else ""


def shown(ty):
    """A type as it is written."""
    kind, value = only(ty)
    if kind == "resolved_path":
        return path(value)
    if kind in ("generic", "primitive"):
        return {"never": "!"}.get(value, value)
    if kind == "tuple":
        return f"({', '.join(map(shown, value))}{',' if len(value) == 1 else ''})"
    if kind == "slice":
        return f"[{shown(value)}]"
    if kind == "array":
        return f"[{shown(value['type'])}; {value['len']}]"
    if kind == "borrowed_ref":
        lifetime = f"{value['lifetime']} " if value["lifetime"] else ""
        inner = shown(value["type"])
        inner = f"({inner})" if inner.startswith(("dyn ", "impl ")) and " + " in inner else inner
        return f"&{lifetime}{'mut ' if value['is_mutable'] else ''}{inner}"
    if kind == "raw_pointer":
        return f"*{'mut' if value['is_mutable'] else 'const'} {shown(value['type'])}"
    if kind == "impl_trait":
        return f"impl {bounds(value)}"
    if kind == "dyn_trait":
        words = [for_all(one["generic_params"]) + path(one["trait"]) for one in value["traits"]]
        return f"dyn {' + '.join(words + ([value['lifetime']] if value['lifetime'] else []))}"
    if kind == "function_pointer":
        signature = value["sig"]
        inputs = ", ".join(shown(ty) for _, ty in signature["inputs"])
        return f"{for_all(value['generic_params'])}{header(value['header'])}fn({inputs}){returned(signature)}"
    if kind == "qualified_path":
        trait = value["trait"]
        inside = f"<{shown(value['self_type'])} as {path(trait)}>" if trait and trait["path"] else shown(value["self_type"])
        return f"{inside}::{value['name']}{generic_args(value['args'])}"
    if kind == "infer":
        return "_"
    raise Unknown(kind)


def returned(signature):
    return f" -> {shown(signature['output'])}" if signature["output"] else ""


def header(value):
    abi = value["abi"] if isinstance(value["abi"], str) else next(iter(value["abi"]))
    words = [word for word in ("const", "async", "unsafe") if value[f"is_{word}"]]
    if abi != "Rust":
        words.append(f'extern "{abi}"')
    return "".join(word + " " for word in words)


def params(generics):
    words = []
    for param in generics["params"]:
        kind, value = only(param["kind"])
        if kind == "lifetime":
            words.append(param["name"] + (f": {' + '.join(value['outlives'])}" if value["outlives"] else ""))
        elif kind == "const":
            words.append(f"const {param['name']}: {shown(value['type'])}" + (f" = {value['default']}" if value["default"] else ""))
        elif not value["is_synthetic"]:
            bound = f": {bounds(value['bounds'])}" if value["bounds"] else ""
            words.append(param["name"] + bound + (f" = {shown(value['default'])}" if value["default"] else ""))
    return f"<{', '.join(words)}>" if words else ""


def where(generics):
    words = []
    for predicate in generics["where_predicates"]:
        kind, value = only(predicate)
        if kind == "bound_predicate":
            words.append(f"{for_all(value['generic_params'])}{shown(value['type'])}: {bounds(value['bounds'])}")
        elif kind == "lifetime_predicate":
            words.append(f"{value['lifetime']}: {' + '.join(value['outlives'])}")
        else:
            words.append(f"{shown(value['lhs'])} = {term(value['rhs'])}")
    return f" where {', '.join(words)}" if words else ""


def function(name, value):
    inputs = []
    for argument, ty in value["sig"]["inputs"]:
        text = shown(ty)
        inputs.append({"Self": "self", "&Self": "&self", "&mut Self": "&mut self"}.get(text, f"self: {text}")
                      if argument == "self" else f"{argument}: {text}")
    generics = value["generics"]
    return (f"{header(value['header'])}fn {name}{params(generics)}({', '.join(inputs)}){returned(value['sig'])}"
            f"{where(generics)}")


class Crate:
    """The lines of one crate."""

    def __init__(self, document):
        if document["format_version"] not in FORMAT_VERSIONS:
            raise Unknown(f"version {document['format_version']} of rustdoc's JSON")
        self.index = document["index"]
        self.lines = set()
        self.seen = set()
        root = self.index[str(document["root"])]
        self.name = root["name"]
        self.module(root, self.name)

    def item(self, number):
        return self.index.get(str(number))

    def add(self, item, text):
        marks = [mark for mark in item["attrs"] if mark in ("non_exhaustive", "must_use") or "must_use" in mark]
        mark = "#[non_exhaustive] " if any("non_exhaustive" in str(mark) for mark in item["attrs"]) else ""
        mark += "#[must_use] " if marks and any("must_use" in mark for mark in marks) else ""
        mark += "#[deprecated] " if item["deprecation"] else ""
        self.lines.add(mark + text)

    def module(self, module, name):
        for number in module["inner"]["module"]["items"]:
            self.named(self.item(number), name)

    def named(self, item, parent, alias=None):
        """An item of a module, by the name that it has there."""
        if item is None:
            return
        kind, value = only(item["inner"])
        if kind == "use":
            return self.use(item, value, parent)
        if item["visibility"] != "public" and alias is None and kind != "macro":
            return
        name = f"{parent}::{alias or item['name']}"
        if (item["id"], name) in self.seen:
            return
        self.seen.add((item["id"], name))
        if kind == "module":
            self.add(item, f"mod {name}")
            self.module(item, name)
        elif kind == "function":
            self.add(item, function(name, value))
        elif kind == "constant":
            self.add(item, f"const {name}: {shown(value['type'])} = {value['const']['value'] or value['const']['expr']}")
        elif kind == "static":
            self.add(item, f"static {'mut ' if value['is_mutable'] else ''}{name}: {shown(value['type'])}")
        elif kind == "type_alias":
            self.add(item, f"type {name}{params(value['generics'])} = {shown(value['type'])}{where(value['generics'])}")
        elif kind == "macro":
            self.add(item, f"macro {name}!")
        elif kind == "proc_macro":
            self.add(item, f"proc macro {name}!")
        elif kind in ("struct", "union"):
            self.structure(item, value, name)
        elif kind == "enum":
            self.enumeration(item, value, name)
        elif kind == "trait":
            self.trait(item, value, name)
        elif kind == "trait_alias":
            self.add(item, f"trait {name} = {bounds(value['params'])}")
        else:
            raise Unknown(f"{kind} {name}")

    def use(self, item, value, parent):
        if item["visibility"] != "public":
            return
        target = value["id"] is not None and self.item(value["id"])
        if not target:
            star = "::*" if value["is_glob"] else f" as {value['name']}"
            self.add(item, f"use {parent}: {value['source']}{star}")
        elif not value["is_glob"]:
            self.named(target, parent, value["name"])
        elif "module" in target["inner"]:
            self.module(target, parent)
        else:
            for variant in target["inner"]["enum"]["variants"]:
                self.add(item, f"use {parent}: {value['source']}::{self.item(variant)['name']}")

    def structure(self, item, value, name):
        kind, fields = only(value["kind"]) if "kind" in value else ("plain", {"fields": value["fields"], "has_stripped_fields": value["has_stripped_fields"]})
        generics = value["generics"]
        head = f"{'union' if 'kind' not in value else 'struct'} {name}{params(generics)}"
        if kind == "unit":
            self.add(item, f"{head}{where(generics)};")
        elif kind == "tuple":
            inside = ["_" if number is None or self.item(number) is None else shown(self.item(number)["inner"]["struct_field"]) for number in fields]
            self.add(item, f"{head}({', '.join(inside)}){where(generics)};")
        else:
            has_private = fields["has_stripped_fields"]
            self.add(item, f"{head}{where(generics)} {'{ .. }' if has_private else '{}'}")
            for number in fields["fields"]:
                field = self.item(number)
                if field:
                    self.add(field, f"field {name}.{field['name']}: {shown(field['inner']['struct_field'])}")
        self.implementations(value["impls"], name)

    def enumeration(self, item, value, name):
        self.add(item, f"enum {name}{params(value['generics'])}{where(value['generics'])}")
        for number in value["variants"]:
            variant = self.item(number)
            if not variant:
                continue
            kind, fields = only(variant["inner"]["variant"]["kind"])
            full = f"{name}::{variant['name']}"
            discriminant = variant["inner"]["variant"]["discriminant"]
            text = f"variant {full}" + (f" = {discriminant['value']}" if discriminant else "")
            if kind == "tuple":
                inside = [shown(self.item(one)["inner"]["struct_field"]) if one is not None and self.item(one) else "_" for one in fields]
                text += f"({', '.join(inside)})"
            self.add(variant, text)
            if kind == "struct":
                for one in fields["fields"]:
                    field = self.item(one)
                    self.add(field, f"field {full}.{field['name']}: {shown(field['inner']['struct_field'])}")
        self.implementations(value["impls"], name)

    def trait(self, item, value, name):
        above = f": {bounds(value['bounds'])}" if value["bounds"] else ""
        unsafe = "unsafe " if value["is_unsafe"] else ""
        self.add(item, f"{unsafe}trait {name}{params(value['generics'])}{above}{where(value['generics'])}")
        self.members(value["items"], name, is_trait=True)

    def members(self, numbers, name, is_trait):
        for number in numbers:
            member = self.item(number)
            if not member or (not is_trait and member["visibility"] != "public"):
                continue
            kind, value = only(member["inner"])
            full = f"{name}::{member['name']}"
            given = ""
            if kind == "function":
                given = " { .. }" if is_trait and value["has_body"] else ""
                self.add(member, function(full, value) + given)
            elif kind == "assoc_const":
                given = f" = {value['value']}" if value["value"] is not None else ""
                self.add(member, f"const {full}: {shown(value['type'])}{given}")
            elif kind == "assoc_type":
                above = f": {bounds(value['bounds'])}" if value["bounds"] else ""
                given = f" = {shown(value['type'])}" if value["type"] else ""
                self.add(member, f"type {full}{params(value['generics'])}{above}{given}")
            else:
                raise Unknown(f"{kind} {full}")

    def implementations(self, numbers, name):
        for number in numbers:
            block = self.item(number)
            if not block:
                continue
            value = block["inner"]["impl"]
            if value["is_synthetic"] or value["blanket_impl"]:
                continue
            if not value["trait"]:
                self.members(value["items"], name, is_trait=False)
                continue
            types = [self.item(one) for one in value["items"]]
            types = [one for one in types if one and "assoc_type" in one["inner"]]
            given = "".join(f" {{ {one['name']} = {shown(one['inner']['assoc_type']['type'])} }}" for one in types)
            no = "!" if value["is_negative"] else ""
            unsafe = "unsafe " if value["is_unsafe"] else ""
            self.add(block, f"{unsafe}impl{params(value['generics'])} {no}{path(value['trait'])} for {shown(value['for'])} ({name}){where(value['generics'])}{given}")


def lines(document):
    """The interface of a crate, one line a name, sorted.

    Raises Unknown where rustdoc writes what this does not know.
    """
    crate = Crate(document)

    def place(line):
        """By the name, so that what belongs to a type stands together."""
        return (line[max(line.find(f"{crate.name}::"), 0):], line)

    return sorted(crate.lines, key=place)
