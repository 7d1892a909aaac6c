// A field that narrows the table "What do you have?" to the rows that hold what is typed.
document.addEventListener("DOMContentLoaded", () => {
  const heading = document.getElementById("what-do-you-have");
  let table = heading && heading.nextElementSibling;
  while (table && !table.querySelector("tbody")) table = table.nextElementSibling;
  if (!table) return;
  const rows = [...table.querySelectorAll("tbody tr")];
  const words = rows.map((row) => row.textContent.toLowerCase());
  const field = document.createElement("input");
  field.type = "search";
  field.id = "tasks";
  field.placeholder = "I have ... trips, a simulator, patients";
  field.setAttribute("aria-label", "I have");
  const told = document.createElement("p");
  told.setAttribute("role", "status");
  heading.after(field, told);
  field.addEventListener("input", () => {
    // Words such as "I have" say nothing; every other one must begin a word of the row.
    const asked = field.value.toLowerCase().match(/[\p{L}\p{N}]+/gu) || [];
    const wanted = asked.filter((word) => !["i", "have", "a", "an", "the", "some", "of", "and"].includes(word));
    const met = (text) => wanted.every((word) => (text.match(/[\p{L}\p{N}]+/gu) || []).some((one) => one.startsWith(word.replace(/s$/, ""))));
    rows.forEach((row, i) => { row.hidden = !met(words[i]); });
    const left = rows.filter((row) => !row.hidden).length;
    told.textContent = !wanted.length ? "" : left ? `${left} of ${rows.length}` : "Nothing by that name: try another word, or the search above.";
  });
});
