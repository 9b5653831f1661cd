// Visits pages of a service in headless Chromium, on small and large screens, in light and dark mode, and prints a problem a line.
//
// usage: node pages.mjs BROWSER BASE LOGIN PATH...
// BROWSER is the directory of the browser, of Playwright and of axe. LOGIN is `name:password` for the page `/login`, or empty. The page of
// the first path has a search form.

import fs from "node:fs";
import { createRequire } from "node:module";

const [browserDirectory, base, login, ...paths] = process.argv.slice(2);
const { chromium } = createRequire(import.meta.url)(`${browserDirectory}/playwright-core`);
const axe = fs.readFileSync(`${browserDirectory}/axe-core/axe.min.js`, "utf8");
const WIDTHS = [360, 1280];
const FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex='0']";

const browser = await chromium.launch({
    executablePath: `${browserDirectory}/chromium/bin/chromium`,
    args: ["--headless", "--no-sandbox", "--disable-gpu"],
    env: {
        ...process.env,
        LD_LIBRARY_PATH: `${browserDirectory}/chromium/lib`,
        FONTCONFIG_FILE: `${browserDirectory}/chromium/fonts.conf`,
    },
});

/** The page of a path in a new window, and what its console says. */
async function open(path, options) {
    const context = await browser.newContext({ ...options, viewport: { width: options.width, height: 800 } });
    const page = await context.newPage();
    const said = [];
    page.on("console", (message) => said.push(message.text()));
    page.on("pageerror", (error) => said.push(String(error)));
    const answer = await page.goto(base + path);
    return { context, page, said, status: answer.status() };
}

/** Content that is wider than the window, and headings of columns that are broken inside a word. */
async function layoutProblems(page) {
    return page.evaluate(() => {
        const problems = [];
        const wider = document.documentElement.scrollWidth - window.innerWidth;
        if (wider > 0) problems.push(`the page is ${wider} px wider than the window`);
        for (const heading of document.querySelectorAll("thead th")) {
            const range = document.createRange();
            range.selectNodeContents(heading);
            const lines = new Set([...range.getClientRects()].map((line) => Math.round(line.top))).size;
            const words = heading.textContent.trim().split(/\s+/).length;
            if (lines > words) problems.push(`the heading "${heading.textContent}" is broken inside a word`);
        }
        return problems;
    });
}

/** Elements that the Tab key does not reach, or that do not show the focus. */
async function keyboardProblems(page) {
    const problems = [];
    const count = await page.locator(FOCUSABLE).count();
    const reached = new Set();
    for (let step = 0; step < count; step += 1) {
        await page.keyboard.press("Tab");
        const [place, outline] = await page.evaluate((focusable) => {
            const element = document.activeElement;
            return [[...document.querySelectorAll(focusable)].indexOf(element), getComputedStyle(element).outlineStyle];
        }, FOCUSABLE);
        if (outline === "none") problems.push(`element ${place} does not show the focus`);
        reached.add(place);
    }
    if (reached.size !== count || reached.has(-1)) problems.push(`Tab reaches ${reached.size} of ${count} elements`);
    return problems;
}

/** The violations that axe finds. It needs a script, which the policy of the pages forbids. */
async function accessProblems(path, options) {
    const { context, page } = await open(path, { ...options, bypassCSP: true });
    await page.evaluate(axe);
    const violations = await page.evaluate(async () => (await window.axe.run()).violations);
    await context.close();
    return violations.map(({ id, nodes }) => `${id}: ${nodes.length} times, first ${nodes[0].html}: ${nodes[0].failureSummary}`);
}

/** Logs in by keyboard, and looks for the user and the way out on the page that follows. */
async function loginProblems() {
    const { context, page } = await open("/login", { width: WIDTHS[0] });
    const [name, password] = login.split(":");
    await page.getByLabel("Name").focus();
    await page.keyboard.type(name);
    await page.keyboard.press("Tab");
    await page.keyboard.type(password);
    await Promise.all([page.waitForURL(base + "/"), page.keyboard.press("Enter")]);
    const problems = await layoutProblems(page);
    if (!(await page.textContent("header")).includes(name)) problems.push("the header does not name the user");
    await Promise.all([page.waitForResponse((answer) => answer.url().endsWith("/logout")), page.getByRole("button", { name: "Log out" }).click()]);
    await page.getByRole("link", { name: "Log in" }).waitFor();
    await context.close();
    return problems;
}

/** Types into the search of the first page and presses Enter. */
async function searchProblems() {
    const { context, page } = await open(paths[0], { width: WIDTHS[0] });
    await page.locator("main input").first().focus();
    await page.keyboard.type("no such thing");
    await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
    const [url, text] = [page.url(), await page.textContent("main")];
    await context.close();
    return /no(%20|\+)such(%20|\+)thing/.test(url) && text.includes("matches.") ? [] : [`the search ended at ${url}: ${text}`];
}

const problems = [];
for (const colorScheme of ["light", "dark"]) {
    for (const width of WIDTHS) {
        for (const path of paths) {
            const { context, page, said, status } = await open(path, { width, colorScheme });
            const found = said.concat(await layoutProblems(page), await keyboardProblems(page));
            if (status !== 200) found.push(`status ${status}`);
            await context.close();
            found.push(...(await accessProblems(path, { width, colorScheme })));
            problems.push(...found.map((problem) => `${path}, ${width} px, ${colorScheme}: ${problem}`));
        }
    }
}
problems.push(...(await searchProblems()));
if (login) problems.push(...(await loginProblems()));
await browser.close();
problems.forEach((problem) => console.log(problem.replaceAll("\n", " ")));
console.log(`${paths.length} pages visited`);
