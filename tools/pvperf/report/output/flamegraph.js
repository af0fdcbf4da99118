// SPDX-License-Identifier: GPL-2.0
// Draws the nodes that are wide enough; #zoom=N&search=TEXT in the address says
// what is shown.
"use strict";
(function () {
	const HEIGHT = 17, LEAST = 0.05; // px, percent
	const $ = id => document.getElementById(id);
	const data = JSON.parse($("data").textContent);
	const root = {id: 0, name: "all", events: 0, depth: 0, children: []};
	const nodes = [root];

	for (const [parent, name, events] of data.nodes) {
		const up = nodes[parent];
		const node = {id: nodes.length, name: data.names[name], events,
			      up, depth: up.depth + 1, children: []};
		up.children.push(node);
		nodes.push(node);
	}
	root.events = root.children.reduce((n, c) => n + c.events, 0);
	for (const node of nodes)
		node.children.sort((a, b) => b.events - a.events);
	root.children.sort((a, b) => data.order.indexOf(a.name) -
			   data.order.indexOf(b.name));

	// The whole of a page's address, as it may be anybody's.
	function wanted() {
		const words = new URLSearchParams(location.hash.slice(1));
		return {zoom: nodes[Number(words.get("zoom"))] || root,
			search: (words.get("search") || "").toLowerCase()};
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

	function describe(node) {
		const of = domain(node);
		return `${node.name}: ${node.events.toLocaleString("en")} ` +
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

	const found = (node, search) =>
		search && node.name.toLowerCase().includes(search);

	// Of what is found, and not counted with one that it is in.
	function matched(node, search) {
		let n = 0;
		const rest = [node];
		while (rest.length) {
			const next = rest.pop();
			if (found(next, search))
				n += next.events;
			else
				rest.push(...next.children);
		}
		return n;
	}

	let deepest;

	function bar(node, left, width, search, above) {
		const div = document.createElement("div");
		div.textContent = node.name;
		div.title = describe(node);
		div.dataset.id = node.id;
		div.dataset.events = node.events;
		div.tabIndex = 0;
		div.style.cssText = `left:${left}%;width:${width}%;` +
			`top:${node.depth * HEIGHT}px;background:${colour(node)}`;
		if (found(node, search))
			div.classList.add("found");
		if (above)
			div.classList.add("above");
		deepest = Math.max(deepest, node.depth);
		$("graph").append(div);
	}

	function draw() {
		const {zoom, search} = wanted();
		deepest = 0;
		$("graph").textContent = "";
		for (let node = zoom.up; node; node = node.up)
			bar(node, 0, 100, search, true);
		const rest = [[zoom, 0]];
		while (rest.length) {
			const [node, left] = rest.pop();
			const width = 100 * node.events / (zoom.events || 1);
			if (node !== zoom && width < LEAST)
				continue;
			bar(node, left, width, search, false);
			let at = left;
			for (const child of node.children) {
				rest.push([child, at]);
				at += 100 * child.events / (zoom.events || 1);
			}
		}
		$("graph").style.height = `${(deepest + 1) * HEIGHT}px`;
		$("search").value = search;
		$("matched").textContent = search ? "found: " + percent(
			matched(root, search), root.events) + " of all" : "";
		$("info").textContent = describe(zoom);
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
			$("info").textContent = describe(at(e));
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
	draw();
})();
