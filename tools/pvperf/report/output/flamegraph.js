// SPDX-License-Identifier: GPL-2.0
// Draws the nodes that are wide enough. #zoom=N&search=TEXT in the page's address gives
// the node that is shown, and the search. TEXT is a part of a name, or /a regular expression/.
"use strict";
(function () {
	const HEIGHT = 17, LEAST = 0.05; // px, percent
	const LABEL = 24; // px: no label fits in a narrower node
	const $ = id => document.getElementById(id);
	const data = JSON.parse($("data").textContent);
	const root = {id: 0, name: "all", events: 0, depth: 0, children: []};
	const nodes = [root];
	const marked = new Set(data.marked);
	const rests = new Set(data.rests);

	data.nodes.forEach((name, i) => {
		const up = nodes[data.parents[i]];
		const node = {id: nodes.length, name: data.names[name],
			      events: data.events[i], up, depth: up.depth + 1,
			      rest: rests.has(i + 1), children: []};
		up.children.push(node);
		nodes.push(node);
	});
	root.events = root.children.reduce((n, c) => n + c.events, 0);
	for (const node of nodes)
		node.children.sort((a, b) => a.rest - b.rest || b.events - a.events);
	root.children.sort((a, b) => data.order.indexOf(a.name) -
			   data.order.indexOf(b.name));

	// Anybody can write the page's address: an unknown node is the root.
	function wanted() {
		const words = new URLSearchParams(location.hash.slice(1));
		return {zoom: nodes[Number(words.get("zoom"))] || root,
			search: words.get("search") || ""};
	}

	function want(zoom, search) {
		location.hash = new URLSearchParams({zoom: zoom.id, search});
	}

	const percent = (n, of) => (of ? 100 * n / of : 0).toFixed(2) + "%";

	function domain(node) {
		while (node.depth > 1)
			node = node.up;
		return node;
	}

	const mark = node => marked.has(domain(node).name) ? "~" : "";

	function describe(node) {
		const of = domain(node);
		return `${node.name}: ${mark(node)}` +
			`${node.events.toLocaleString("en")} ` +
			`${data.event}, ${percent(node.events, root.events)} of all` +
			(node.depth > 1 ? `, ${percent(node.events, of.events)} of ` +
			 of.name : "");
	}

	// A colour for each domain, lighter and darker by name.
	function colour(node) {
		if (node === root)
			return "#ddd";
		let hash = 0;
		for (const c of node.name)
			hash = (hash * 31 + c.codePointAt(0)) & 0xffff;
		const hue = root.children.indexOf(domain(node)) * 137.5 % 360;
		return `hsl(${hue}, 65%, ${68 + hash % 16}%)`;
	}

	// The Set of names that match the search, or null without a search.
	function find(search) {
		if (!search)
			return null;
		const between = search.match(/^\/(.+)\/$/s);
		const lower = search.toLowerCase();
		const test = between ? RegExp(between[1], "i") : null;
		return new Set(data.names.filter(name => test ? test.test(name) :
			name.toLowerCase().includes(lower)));
	}

	// sum: the events of found nodes, each counted once, in its outermost found node;
	// left: the events of left out nodes, whose names are not known.
	function matched(node, found) {
		let sum = 0, left = 0;
		const todo = node === root ? [...root.children] : [node];
		while (todo.length) {
			const next = todo.pop();
			if (next.rest)
				left += next.events;
			else if (found.has(next.name))
				sum += next.events;
			else
				todo.push(...next.children);
		}
		return {sum, left};
	}

	// For each node: is it found, or a node below it? A parent comes before its children.
	function hits(found) {
		const result = new Uint8Array(nodes.length);
		for (let id = nodes.length - 1; found && id > 0; id--) {
			if (found.has(nodes[id].name))
				result[id] = 1;
			if (result[id])
				result[nodes[id].up.id] = 1;
		}
		return result;
	}

	function say(found) {
		if (!found)
			return "";
		const {sum, left} = matched(root, found);
		return `found: ${percent(sum, root.events)} of all` + (left ?
			`, and at most ${percent(left, root.events)} more in what ` +
			"was left out" : "");
	}

	function cell(tag, text) {
		const element = document.createElement(tag);
		element.textContent = text;
		return element;
	}

	// Fills the table of VMs: events in the guest and on its host, and those found.
	function tell(found) {
		const vms = new Map();
		for (const [id, vm] of Object.entries(data.vms)) {
			const node = nodes[id];
			const sums = vms.get(vm) || {all: 0, found: 0, mark: ""};
			sums.all += node.events;
			sums.mark ||= mark(node);
			if (found)
				sums.found += found.has(domain(node).name) ?
					node.events : matched(node, found).sum;
			vms.set(vm, sums);
		}
		const row = (tag, words) => {
			const tr = document.createElement("tr");
			tr.append(...words.map(w => cell(tag, w)));
			return tr;
		};
		$("vms").replaceChildren(...vms.size ? [
			row("th", ["VM", data.event, "of all",
				   ...found ? ["found", "of it"] : []])] : [],
			...[...vms].sort((a, b) => b[1].all - a[1].all).map(
				([vm, {all, found: n, mark}]) => row("td", [
					vm, mark + all.toLocaleString("en"),
					percent(all, root.events),
					...found ? [n.toLocaleString("en"),
						    percent(n, all)] : []])));
	}

	let deepest;

	function bar(node, left, width, found, kind) {
		const div = document.createElement("div");
		if (width / 100 * $("graph").clientWidth >= LABEL)
			div.textContent = (node.depth === 1 ? mark(node) : "") +
				node.name;
		div.title = describe(node);
		div.dataset.id = node.id;
		div.dataset.events = node.events;
		div.tabIndex = 0;
		div.style.cssText = `left:${left}%;width:${width}%;` +
			`top:${node.depth * HEIGHT}px` +
			(kind.startsWith("rest") ? "" : `;background:${colour(node)}`);
		if (found && node !== root && found.has(node.name))
			div.classList.add("found");
		div.classList.add(...kind.split(" ").filter(Boolean));
		deepest = Math.max(deepest, node.depth);
		$("graph").append(div);
	}

	// A grey box for all children that are too narrow: a click zooms to their parent.
	function narrow(node, children, left, scale, hit) {
		const events = children.reduce((n, c) => n + c.events, 0);
		if (events * scale >= LEAST)
			bar({id: node.id, name: `${children.length} more in ${node.name}`,
			     events, up: node, depth: node.depth + 1}, left,
			    events * scale, null,
			    children.some(c => hit[c.id]) ? "rest found" : "rest");
	}

	function draw() {
		const {zoom, search} = wanted();
		let found = null, wrong = "";
		try {
			found = find(search);
		} catch (e) {
			wrong = e.message;
		}
		deepest = 0;
		$("graph").textContent = "";
		for (let node = zoom.up; node; node = node.up)
			bar(node, 0, 100, found, "above");
		const todo = [[zoom, 0]], hit = hits(found);
		const scale = 100 / (zoom.events || 1);
		while (todo.length) {
			const [node, left] = todo.pop();
			bar(node, left, node.events * scale, found,
			    node.rest ? "rest" : "");
			let at = left;
			const wide = node.children.filter(
				c => c.events * scale >= LEAST);
			for (const child of wide) {
				todo.push([child, at]);
				at += child.events * scale;
			}
			if (wide.length < node.children.length)
				narrow(node, node.children.filter(
					c => c.events * scale < LEAST), at, scale, hit);
		}
		$("graph").style.height = `${(deepest + 1) * HEIGHT}px`;
		$("search").value = search;
		$("matched").textContent = wrong || say(found);
		$("info").textContent = describe(zoom);
		tell(found);
	}

	function at(event) {
		return event.target.dataset.id && nodes[event.target.dataset.id];
	}

	$("graph").addEventListener("click", e => {
		if (at(e))
			want(at(e), wanted().search);
	});
	$("graph").addEventListener("mouseover", e => {
		if (at(e))
			$("info").textContent = e.target.title;
	});
	document.addEventListener("keydown", e => {
		if (e.key === "Escape")
			want(root, "");
		else if (e.key === "Enter" && at(e))
			want(at(e), wanted().search);
	});
	$("form").addEventListener("submit", e => {
		e.preventDefault();
		want(wanted().zoom, $("search").value);
	});
	$("reset").addEventListener("click", () => want(root, ""));
	window.addEventListener("hashchange", draw);
	window.addEventListener("resize", draw);
	draw();
})();
