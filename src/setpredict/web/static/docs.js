// The OpenAPI document as a page: each endpoint with its request and its response.

const main = document.getElementById("main");
const api = await (await fetch("openapi.json")).json();

function add(parent, tag, text) {
  const node = document.createElement(tag);
  if (text) node.textContent = text;
  parent.append(node);
  return node;
}

for (const [path, methods] of Object.entries(api.paths)) {
  for (const [method, operation] of Object.entries(methods)) {
    const section = add(main, "section");
    add(section, "h2", `${method.toUpperCase()} ${path}`);
    add(section, "p", operation.description || operation.summary);
    const body = operation.requestBody?.content?.["application/json"]?.schema;
    if (body) describe(section, "Request", body);
    const list = add(section, "ul");
    for (const [status, answer] of Object.entries(operation.responses)) add(list, "li", `${status}: ${answer.description}`);
    const given = operation.responses["200"]?.content?.["application/json"]?.schema;
    if (given) describe(section, "Response", given);
  }
}

function describe(section, title, schema) {
  const named = (schema.$ref || schema.items?.$ref || "").split("/").at(-1);
  const model = api.components.schemas[named];
  if (!model) return;
  add(section, "h3", `${title}: ${schema.items ? "a list of " : ""}${named}`);
  if (model.description) add(section, "p", model.description);
  const holder = add(section, "div");
  holder.className = "table";
  const table = add(holder, "table");
  for (const [name, field] of Object.entries(model.properties)) {
    const row = table.insertRow();
    add(row, "th", name).scope = "row";
    row.insertCell().textContent = kind(field);
    row.insertCell().textContent = field.description || "";
  }
  if (model.examples) add(section, "pre", JSON.stringify(model.examples[0]));
}

function kind(field) {
  const options = (field.anyOf || [field]).map((o) => (o.$ref ? o.$ref.split("/").at(-1) : o.type === "array" ? `list of ${kind(o.items || {})}` : o.type || "anything"));
  return options.filter((o) => o !== "null").join(" or ") || "anything";
}
