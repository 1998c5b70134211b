// Style sheets are imported for esbuild to bundle.
declare module "*.css";
